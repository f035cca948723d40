//! What a run leaves: one sample for each request, and what they amount to.

use nekoproto::Refusal;
use tarpc::client::RpcError;

use crate::plan::workload::Verdict;
use crate::prelude::*;
use crate::report::figures::Figures;
use crate::report::{Row, key};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    DeadlinePassed,
    ConnectionLost,
    Busy,
    Refused,
    Internal,
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::DeadlineExceeded => Self::DeadlinePassed,
            RpcError::Server(error) if error.kind == io::ErrorKind::WouldBlock => Self::Busy,
            RpcError::Server(_) => Self::Internal,
            RpcError::Shutdown | RpcError::Channel(_) | RpcError::Send(_) => Self::ConnectionLost,
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Busy => Self::Busy,
            _ => Self::Refused,
        }
    }
}

// A run of many requests is a run of much memory.
const _: () = assert!(size_of::<Sample>() == 64);

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub client: u32,
    /// When it was meant to begin, since the measurement began.
    pub begun: Duration,
    /// From then to its answer.
    pub took: Duration,
    /// How much of that had passed before it was sent: 0 unless there is a rate to keep.
    pub late: Duration,
    /// Whether there was an answer, and what it is worth.
    pub outcome: Result<Verdict, Failure>,
    /// Whether something was to be found.
    pub is_hit: bool,
    /// Messages between indexers, as the answer says.
    pub messages: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// The measured ones, each client's in order, one client after the other.
    pub measured: Vec<Sample>,
    pub warm_up: Vec<Sample>,
    /// From the first measured request to the last answer.
    pub wall: Duration,
    pub interrupted: bool,
}

impl Samples {
    /// Answers that are not what the topology and the TTL say they must be, by kind; those before the
    /// measurement too.
    pub fn wrong(&self) -> BTreeMap<Verdict, usize> {
        let verdicts = self.all().filter_map(|sample| sample.outcome.ok());
        count(verdicts.filter(|verdict| *verdict != Verdict::Right))
    }

    /// Requests without an answer, by kind; those before the measurement too.
    pub fn failures(&self) -> BTreeMap<Failure, usize> {
        count(self.all().filter_map(|sample| sample.outcome.err()))
    }

    fn all(&self) -> impl Iterator<Item = &Sample> {
        self.warm_up.iter().chain(&self.measured)
    }

    pub fn answered(&self) -> usize {
        answers(&self.measured).count()
    }

    /// Answered requests whose name was to be found.
    pub fn hits(&self) -> usize {
        answers(&self.measured).filter(|sample| sample.is_hit).count()
    }

    /// Query messages between indexers, for all answers.
    pub fn messages(&self) -> u64 {
        answers(&self.measured).map(|sample| u64::from(sample.messages)).sum()
    }

    pub fn figures(&self) -> Figures {
        Figures::of(answers(&self.measured).map(|sample| sample.took))
    }

    pub fn warm_up_figures(&self) -> Figures {
        Figures::of(answers(&self.warm_up).map(|sample| sample.took))
    }

    /// How late requests were sent, where there was a rate to keep.
    pub fn lateness(&self) -> Figures {
        Figures::of(answers(&self.measured).map(|sample| sample.late))
    }

    /// Response times by round: the n-th entry is the mean of every client's n-th answer, in
    /// microseconds.
    pub fn round_means_us(&self) -> Vec<f64> {
        let mut rounds = BTreeMap::<usize, (f64, f64)>::new();
        for (round, us) in self.by_round() {
            let (sum, count) = rounds.entry(round).or_default();
            (*sum, *count) = (*sum + us, *count + 1.0);
        }
        rounds.into_values().map(|(sum, count)| sum / count).collect()
    }

    /// For each answer the number it has among those of its client, and its time in microseconds.
    pub fn by_round(&self) -> impl Iterator<Item = (usize, f64)> {
        let (mut client, mut round) = (None, 0);
        answers(&self.measured).map(move |sample| {
            round = if client == Some(sample.client) { round + 1 } else { 0 };
            client = Some(sample.client);
            (round, sample.took.as_secs_f64() * 1e6)
        })
    }
}

impl Sample {
    /// The keys of [`row`](Self::row), in their order.
    pub const KEYS: &str = "client begun_us took_us late_us outcome hit messages";

    pub fn row(self) -> Row {
        let [begun, took, late] = [self.begun, self.took, self.late].map(|time| time.as_secs_f64() * 1e6);
        let outcome = self.outcome.map_or_else(|failure| key(&failure), |verdict| key(&verdict));
        Row::of(json!({
            "client": self.client, "begun_us": begun, "took_us": took, "late_us": late, "outcome": outcome,
            "hit": u8::from(self.is_hit), "messages": self.messages,
        }))
    }
}

fn answers(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(|sample| sample.outcome.is_ok())
}

fn count<T: Ord>(items: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts
}

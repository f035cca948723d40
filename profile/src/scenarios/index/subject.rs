//! The indexer that is measured, and the calls it gets. Every answer is checked.

use futures::{FutureExt, Stream, future::try_join};
use nekoproto::{Names, QueryAllRequest};

use super::inside::Inside;
use crate::cluster::request;
use crate::scenarios::prelude::*;

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const WARM_UP: usize = amount(500);

#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    pub(crate) names: usize,
    /// From the first call to the last answer.
    pub(crate) wall: Duration,
    pub(crate) took: Vec<Duration>,
}

impl Timing {
    /// Makes `calls`, `in_flight` at a time; each gives its number of names and its time.
    pub(crate) async fn of<F>(calls: impl Stream<Item = F>, in_flight: usize) -> Result<Self>
    where
        F: Future<Output = Result<(usize, Duration)>>,
    {
        let began = Instant::now();
        let done: Vec<_> = calls.buffer_unordered(in_flight).try_collect().await?;
        let wall = began.elapsed();
        let (names, took): (Vec<usize>, Vec<Duration>) = done.into_iter().unzip();
        Ok(Self { names: names.into_iter().sum(), wall, took })
    }

    /// One after the other.
    pub(crate) fn sum<'a>(timings: impl IntoIterator<Item = &'a Self>) -> Self {
        timings.into_iter().fold(Self::default(), |mut sum, timing| {
            sum.names += timing.names;
            sum.wall += timing.wall;
            sum.took.extend(&timing.took);
            sum
        })
    }

    pub(crate) fn per_s(&self) -> f64 {
        count(self.names) / self.wall.as_secs_f64()
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures::of(self.took.iter().copied())
    }
}

/// Names that are looked up and registered again, and what must be found.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) records: Vec<SignedRecord>,
    /// What the index without a network answers for each.
    answers: Vec<QueryReply>,
    /// Names that are not registered, as many.
    pub(crate) missing: Vec<FileName>,
}

impl Known {
    /// All of `records`, on an index of its own where the peer `at` these addresses has registered them.
    pub(crate) fn of(records: &[VerifiedRecord], at: NodeAddrs) -> Self {
        let mut inside = Inside::new(at);
        inside.register(records);
        Self::known_to(&inside, records.iter().map(VerifiedRecord::to_signed).collect())
    }

    /// These records, with the answers of the index without a network.
    pub(crate) fn known_to(inside: &Inside, records: Vec<SignedRecord>) -> Self {
        let answers = records.iter().map(|record| inside.search(&record.unverified().name)).collect();
        let missing = |n: usize| FileName::new(&format!("data-set/none-{n:012}.bin")).ok();
        Self { missing: (0..records.len()).filter_map(missing).collect(), answers, records }
    }
}

/// An indexer in a process of its own, and one peer connected to it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) net: Net,
    pub(crate) client: Client,
}

impl Subject {
    pub(crate) async fn start(deployment: &Deployment, identity: Identity) -> Result<Self> {
        let net = Net::single(deployment).await?;
        let client = net.client(0, identity).await?;
        for _ in 0..WARM_UP {
            client.calls.query(context::current(), request(&FileName::new("nothing")?, 0)).await??;
        }
        Ok(Self { net, client })
    }

    /// Registers `records`, `batch` of them in a call, with `in_flight` calls in flight; all must be listed.
    pub(crate) async fn register(
        &self,
        records: &[SignedRecord],
        batch: usize,
        in_flight: usize,
    ) -> Result<Timing> {
        let batches: Vec<Vec<SignedRecord>> = records.chunks(batch).map(<[_]>::to_vec).collect();
        let call = |batch: Vec<SignedRecord>| async move {
            let (sent, count) = (Instant::now(), batch.len());
            self.client.register(batch).await?;
            self.net.watch().add_done(count as u64);
            Ok((count, sent.elapsed()))
        };
        Timing::of(stream::iter(batches).map(call), in_flight).await
    }

    /// Looks up `count` names that are there, and as many that are not; fewer if stopped.
    pub(crate) async fn hits_and_misses(
        &self,
        sample: &Known,
        in_flight: usize,
        count: usize,
    ) -> Result<(Timing, Timing)> {
        let _progress = Progress::begin(&format!("{in_flight} in flight"), 2 * count, self.net.watch());
        let goes_on = |n| n < count && !self.net.watch().is_stopped();
        let hits = self.look_up_while(sample, true, goes_on, in_flight).await?;
        Ok((hits, self.look_up_while(sample, false, goes_on, in_flight).await?))
    }

    /// Looks up names as long as `goes_on` says so of their number; every answer must be what the index
    /// without a network says.
    pub(crate) async fn look_up_while(
        &self,
        sample: &Known,
        is_hit: bool,
        goes_on: impl Fn(usize) -> bool,
        in_flight: usize,
    ) -> Result<Timing> {
        let nothing = QueryReply { complete: true, ..QueryReply::default() };
        let call = |n: usize| {
            let n = n % sample.records.len();
            let (name, expected) = match is_hit {
                true => (&sample.records[n].unverified().name, &sample.answers[n]),
                false => (&sample.missing[n], &nothing),
            };
            async move {
                let sent = Instant::now();
                let reply =
                    self.client.calls.query(call_until(sent + ANSWER_WITHIN), request(name, 0)).await??;
                let took = sent.elapsed();
                ensure!(reply == *expected, "wrong answer for {name}: {reply:?} instead of {expected:?}");
                self.net.watch().add_done(1);
                Ok((1, took))
            }
        };
        Timing::of(stream::iter((0..).take_while(|n| goes_on(*n))).map(call), in_flight).await
    }

    /// Looks up names that are there while `work` goes on.
    pub(crate) async fn look_up_beside<T>(
        &self,
        sample: &Known,
        in_flight: usize,
        work: impl Future<Output = Result<T>>,
    ) -> Result<(T, Timing)> {
        let is_done = AtomicBool::new(false);
        let work = work.inspect(|_| is_done.store(true, Ordering::Relaxed));
        let goes_on = |_| !is_done.load(Ordering::Relaxed);
        try_join(work, self.look_up_while(sample, true, goes_on, in_flight)).await
    }

    /// Looks up `count` names that are there, `batch` of them in a call; fewer if stopped. Every answer must
    /// be what the index without a network says.
    pub(crate) async fn look_up_all(
        &self,
        sample: &Known,
        count: usize,
        batch: usize,
        in_flight: usize,
    ) -> Result<Timing> {
        let all = sample.records.len();
        let batches: Vec<Range<usize>> =
            (0..all).step_by(batch).map(|from| from..(from + batch).min(all)).collect();
        let call = |part: Range<usize>| async move {
            let (records, expected) = (&sample.records[part.clone()], &sample.answers[part]);
            let names = Names::first_of(records.iter().map(|record| record.unverified().name.clone()));
            let sent = Instant::now();
            let answers = self
                .client
                .calls
                .query_all(call_until(sent + ANSWER_WITHIN), QueryAllRequest::new(names, 0))
                .await??;
            let took = sent.elapsed();
            let is_right = answers.iter().map(Option::as_ref).eq(expected.iter().map(Some));
            ensure!(is_right, "wrong answers: {answers:?} instead of {expected:?}");
            self.net.watch().add_done(records.len() as u64);
            Ok((records.len(), took))
        };
        let calls = batches.iter().cycle().take(count.div_ceil(batch)).cloned();
        Timing::of(stream::iter(calls.take_while(|_| !self.net.watch().is_stopped())).map(call), in_flight)
            .await
    }

    pub(crate) async fn stop(self) {
        drop(self.client);
        self.net.stop().await;
    }
}

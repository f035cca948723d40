//! The indexer that is measured, and the calls it gets. Every answer is checked.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use nekoproto::{FileName, Holder, Identity, Names, QueryReply, SignedRecord, transport::call_until};
use tarpc::context;

use super::inside::Inside;
use crate::{
    cluster::{
        client::Client,
        node::{Node, Place},
    },
    report::figures::Figures,
    run::Watch,
};

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Calls before the measured ones.
const WARM_UP: usize = 500;

/// A number of calls, and how long they took.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// Names that the calls were about.
    pub names: usize,
    /// From the first call to the last answer.
    pub wall: Duration,
    /// Each call.
    pub took: Vec<Duration>,
}

impl Timing {
    /// One after the other.
    pub(super) fn sum<'a>(timings: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for timing in timings {
            sum.names += timing.names;
            sum.wall += timing.wall;
            sum.took.extend(&timing.took);
        }
        sum
    }

    /// Names a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a few digits")]
    pub fn per_s(&self) -> f64 {
        self.names as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds for each name, all calls together.
    #[must_use]
    pub fn us_per_name(&self) -> f64 {
        1e6 / self.per_s()
    }

    /// Response times of the calls.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures::of(self.took.iter().copied())
    }
}

/// Names that are looked up and registered again, and what must be found.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Registered records.
    pub(super) records: Vec<SignedRecord>,
    /// What the index without a network answers for each.
    pub(super) answers: Vec<QueryReply>,
    /// Names that are not registered, as many.
    pub(super) missing: Vec<FileName>,
}

impl Sample {
    /// Asks the index without a network for all answers.
    pub(super) fn fill_in(&mut self, inside: &Inside) {
        self.answers = self.records.iter().map(|record| inside.search(&record.unverified().name)).collect();
        let missing = |n: usize| FileName::new(&format!("data-set/none-{n:012}.bin")).ok();
        self.missing = (0..self.records.len()).filter_map(missing).collect();
    }
}

/// An indexer in a process of its own, and one peer connected to it.
#[derive(Debug)]
pub(super) struct Subject {
    node: Node,
    client: Client,
}

impl Subject {
    /// Starts it, with a peer of this identity.
    ///
    /// # Errors
    /// It did not start; nothing is left running.
    pub(super) async fn start(place: &Place, identity: Identity) -> anyhow::Result<Self> {
        let node = place.indexer(0, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Vec::new()).await?;
        let client = Client::connect(node.addr(), identity, place.security).await?;
        for _ in 0..WARM_UP {
            client.calls.search(context::current(), FileName::new("nothing")?).await??;
        }
        Ok(Self { node, client })
    }

    /// The peer as it is listed.
    pub(super) const fn holder(&self) -> Holder {
        self.client.holder
    }

    /// The peer.
    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// Another peer of this identity.
    ///
    /// # Errors
    /// It cannot connect.
    pub(super) async fn another(&self, place: &Place, identity: Identity) -> anyhow::Result<Client> {
        Client::connect(self.node.addr(), identity, place.security).await
    }

    /// Resident memory of the indexer in bytes.
    pub(super) fn rss_bytes(&self) -> Option<u64> {
        self.node.rss_bytes()
    }

    /// Registers `records`, so many in a call, with so many calls in flight.
    ///
    /// # Errors
    /// A call failed, or not all records were listed.
    pub(super) async fn register(
        &self,
        records: &[SignedRecord],
        batch: usize,
        in_flight: usize,
        watch: &Arc<Watch>,
    ) -> anyhow::Result<Timing> {
        let batches: Vec<Vec<SignedRecord>> = records.chunks(batch).map(<[_]>::to_vec).collect();
        let call = |batch: Vec<SignedRecord>| async move {
            let (sent, count) = (Instant::now(), batch.len());
            self.client.register(batch).await?;
            watch.add_done(count as u64);
            anyhow::Ok(sent.elapsed())
        };
        let began = Instant::now();
        let calls = stream::iter(batches).map(call).buffer_unordered(in_flight);
        let took = calls.try_collect().await?;
        Ok(Timing { names: records.len(), wall: began.elapsed(), took })
    }

    /// Looks up `count` names with so many calls in flight; fewer if stopped.
    ///
    /// # Errors
    /// A call failed, or an answer is not what the index without a network says.
    pub(super) async fn look_up(
        &self,
        sample: &Sample,
        is_hit: bool,
        count: usize,
        in_flight: usize,
        watch: &Arc<Watch>,
    ) -> anyhow::Result<Timing> {
        let goes_on = |n| n < count && !watch.is_stopped();
        self.look_up_while(sample, is_hit, goes_on, in_flight, watch).await
    }

    /// Looks up names as long as `goes_on` says so of their number, with so many calls in flight.
    ///
    /// # Errors
    /// A call failed, or an answer is not what the index without a network says.
    pub(super) async fn look_up_while(
        &self,
        sample: &Sample,
        is_hit: bool,
        goes_on: impl Fn(usize) -> bool,
        in_flight: usize,
        watch: &Arc<Watch>,
    ) -> anyhow::Result<Timing> {
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
                    self.client.calls.search(call_until(sent + ANSWER_WITHIN), name.clone()).await??;
                let took = sent.elapsed();
                ensure!(reply == *expected, "wrong answer for {name}: {reply:?} instead of {expected:?}");
                watch.add_done(1);
                Ok(took)
            }
        };
        let began = Instant::now();
        let numbers = stream::iter((0..).take_while(|n| goes_on(*n)));
        let took: Vec<Duration> = numbers.map(call).buffer_unordered(in_flight).try_collect().await?;
        Ok(Timing { names: took.len(), wall: began.elapsed(), took })
    }

    /// Looks up `count` names that are there, so many in a call, with so many calls in flight; fewer if
    /// stopped.
    ///
    /// # Errors
    /// A call failed, or an answer is not what the index without a network says.
    pub(super) async fn look_up_all(
        &self,
        sample: &Sample,
        count: usize,
        batch: usize,
        in_flight: usize,
        watch: &Arc<Watch>,
    ) -> anyhow::Result<Timing> {
        let batches: Vec<Range<usize>> = (0..sample.records.len())
            .step_by(batch)
            .map(|from| from..(from + batch).min(sample.records.len()))
            .collect();
        let call = |part: Range<usize>| async move {
            let (records, expected) = (&sample.records[part.clone()], &sample.answers[part]);
            let names = Names::first_of(records.iter().map(|record| record.unverified().name.clone()));
            let sent = Instant::now();
            let answers = self.client.calls.search_all(call_until(sent + ANSWER_WITHIN), names).await??;
            let took = sent.elapsed();
            let is_right = answers.iter().map(Option::as_ref).eq(expected.iter().map(Some));
            ensure!(is_right, "wrong answers: {answers:?} instead of {expected:?}");
            watch.add_done(records.len() as u64);
            Ok((records.len(), took))
        };
        let began = Instant::now();
        let calls = batches.iter().cycle().take(count.div_ceil(batch)).cloned();
        let calls = stream::iter(calls.take_while(|_| !watch.is_stopped()));
        let (names, took): (Vec<usize>, Vec<Duration>) =
            calls.map(call).buffer_unordered(in_flight).try_collect::<Vec<_>>().await?.into_iter().unzip();
        Ok(Timing { names: names.iter().sum(), wall: began.elapsed(), took })
    }

    /// Ends it.
    pub(super) async fn stop(self) {
        drop(self.client);
        self.node.stop().await;
    }
}

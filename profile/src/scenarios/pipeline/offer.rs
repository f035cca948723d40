//! What goes down the line: messages that are offered at a rate, whatever becomes of earlier ones, many of them in each call;
//! and newer versions of files.

use futures::stream::FuturesUnordered;
use nekoproto::{NoAnswer, Refusal, probe::ProbeEnd, probe::ProbeReply, probe::ProbeRequest};

use super::{Pipeline, stand::HOPS, stand::PASSED_ON, stand::Stand};
use crate::scenarios::prelude::*;

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The line is broken when so many calls were lost one after the other, in times of those that are under way at once.
const BROKEN_AFTER: usize = 3;

#[derive(Default)]
pub(crate) struct Offered {
    /// Messages whose calls were begun.
    pub(crate) sent: u64,
    /// Those that came to the end of the line.
    pub(crate) arrived: u64,
    /// Those that were refused for want of room, and sent again.
    pub(crate) again: u64,
    pub(crate) lost: BTreeMap<String, u64>,
    /// Calls lost since the last one that arrived.
    lost_in_a_row: usize,
    pub(crate) wall: Duration,
    /// From when a message was due until its call was begun: how long the sender was held back.
    pub(crate) held_back: Times,
    /// From when a message was due until it was known to have arrived.
    pub(crate) took: Times,
    /// In each node, and from it to the next and back.
    pub(crate) nodes: [[Times; 2]; HOPS],
}

enum Call {
    Arrived(Box<ProbeReply>),
    Refused,
    Lost(String),
}

/// Offers the messages at `rate` a second (0: as fast as they are taken), as many calls under way as allowed.
pub(crate) async fn offer(client: &Client, rate: u64, options: &Pipeline, watch: &Watch) -> Offered {
    let payload = vec![0x5a; options.in_a_call * options.bytes];
    let messages = options.in_a_call as u64;
    let calls = (options.messages as u64).div_ceil(messages);
    let began = Instant::now();
    let due = |n: u64| match rate {
        0 => began,
        rate => began + Duration::from_nanos((n * messages).saturating_mul(1_000_000_000) / rate),
    };
    let (mut offered, mut under_way, mut next) = (Offered::default(), FuturesUnordered::new(), 0);
    let mut again = Vec::new();
    loop {
        let is_over = watch.is_stopped() || offered.lost_in_a_row >= BROKEN_AFTER * options.in_flight;
        while under_way.len() < options.in_flight && !is_over {
            let now = Instant::now();
            let (at, first) = match again.pop() {
                Some(times) => times,
                None if next < calls && due(next) <= now => {
                    next += 1;
                    offered.sent += messages;
                    offered.held_back.add(now - due(next - 1));
                    (due(next - 1), now)
                }
                None => break,
            };
            under_way.push(call(client, payload.clone(), (at, first)));
        }
        if under_way.is_empty() && (is_over || next == calls) {
            break;
        }
        let waits = next < calls && under_way.len() < options.in_flight && !is_over;
        tokio::select! {
            Some(((at, first), done)) = under_way.next() => match done {
                Call::Arrived(way) => offered.arrived(at, &way, messages, watch),
                Call::Refused if first.elapsed() < ANSWER_WITHIN && !is_over => {
                    offered.again += messages;
                    again.push((at, first));
                }
                Call::Refused => offered.lose("refused for want of room".to_owned(), messages),
                Call::Lost(why) => offered.lose(why, messages),
            },
            () = sleep_until(due(next).into()), if waits => {}
        }
    }
    for _ in again {
        offered.lose("refused for want of room, and no more was offered".to_owned(), messages);
    }
    offered.wall = began.elapsed();
    offered
}

/// Makes a call; `times`, when its messages were due and when it was first made, are returned with what became of it.
async fn call(client: &Client, payload: Vec<u8>, times: (Instant, Instant)) -> ((Instant, Instant), Call) {
    let request = ProbeRequest { payload, ..ProbeRequest::new(MsgId::random(), PASSED_ON) };
    let answer = client.calls.probe(call_until(Instant::now() + ANSWER_WITHIN), request).await;
    let done = match answer {
        Ok(Ok(way)) => match way.end {
            ProbeEnd::Hops if way.stops.iter().any(|stop| stop.again) => {
                Call::Lost("went back: an indexer does not ask the next one".to_owned())
            }
            ProbeEnd::Hops => Call::Arrived(Box::new(way)),
            ProbeEnd::Lost(NoAnswer::Refused(Refusal::Busy) | NoAnswer::Busy) => Call::Refused,
            end => Call::Lost(format!("after {} of {HOPS} nodes: {end}", way.stops.len())),
        },
        Ok(Err(Refusal::Busy)) => Call::Refused,
        Ok(Err(refusal)) => Call::Lost(refusal.to_string()),
        Err(error) => Call::Lost(error.to_string()),
    };
    (times, done)
}

impl Offered {
    fn arrived(&mut self, at: Instant, way: &ProbeReply, messages: u64, watch: &Watch) {
        self.arrived += messages;
        self.lost_in_a_row = 0;
        self.took.add(at.elapsed());
        watch.add_done(messages);
        for (place, (stop, [own, link])) in way.stops.iter().zip(&mut self.nodes).enumerate() {
            own.add(Duration::from_nanos(stop.own_ns.into()));
            if let Some(us) = way.link_us(place) {
                link.add(Duration::from_micros(us.into()));
            }
        }
    }

    fn lose(&mut self, why: String, messages: u64) {
        *self.lost.entry(why).or_default() += messages;
        self.lost_in_a_row += 1;
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.values().sum()
    }
}

const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);
/// What is acknowledged and not told by then is lost.
const TOLD_WITHIN: Duration = Duration::from_secs(20);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// Announcements of a batch of files each that are under way at once.
const ANNOUNCED_AT_ONCE: usize = 4;

/// Real work down the line: an origin at the first indexer announces the second version of each of its files, and a holder of
/// copies at the last is told of each. Announces this number of versions, rounded up to whole batches: one row.
pub(crate) async fn announce(stand: &Stand, versions: usize) -> Result<Row> {
    let (origin, holder) = (stand.client(false).await?, stand.client(true).await?);
    let identity = Identity::generate();
    let batches = versions.div_ceil(BATCH_MAX);
    for batch in 0..batches {
        let first: Vec<_> = first(&identity, batch).iter().map(VerifiedRecord::to_signed).collect();
        origin.register(first.clone()).await?;
        holder.register(first).await?;
    }
    let newer = |record: &VerifiedRecord| sign_next(&identity, record).to_signed();
    let newer: Vec<Vec<SignedRecord>> =
        (0..batches).map(|batch| first(&identity, batch).iter().map(newer).collect()).collect();
    let began = Instant::now();
    let calls = stream::iter(newer).map(|batch| publish(&origin, batch));
    let acknowledged: Vec<u64> = calls.buffer_unordered(ANNOUNCED_AT_ONCE).try_collect().await?;
    let acknowledged: u64 = acknowledged.into_iter().sum();
    // Each file has one newer version: told twice of one, the holder still lacks another.
    let told = || locked(&holder.told).len() as u64;
    let until = Instant::now() + TOLD_WITHIN;
    while told() < acknowledged && Instant::now() < until {
        sleep(LOOK_AGAIN_AFTER).await;
    }
    let (told, wall_s) = (told(), began.elapsed().as_secs_f64());
    Ok(Row::of(json!({
        "scenario": "versions announced at the first, told at the last", "sent": acknowledged, "arrived": told,
        "lost": acknowledged.saturating_sub(told), "per_s": bytes(told) / wall_s,
    })))
}

/// Registers newer versions and has the network told of them; how many that were.
async fn publish(origin: &Client, records: Vec<SignedRecord>) -> Result<u64> {
    let versions = records.len() as u64;
    let request = RegisterRequest { records: Records::try_from(records)?, announce: true, partial: false };
    let reply = origin.calls.register(call_until(Instant::now() + ACKNOWLEDGED_WITHIN), request).await??;
    ensure!(reply.unlisted.is_empty() && reply.newer.is_empty(), "not all versions were listed: {reply:?}");
    Ok(versions)
}

/// The first versions of one batch of files.
fn first(origin: &Identity, batch: usize) -> Vec<VerifiedRecord> {
    (0..BATCH_MAX).map(|n| sign_record(origin, &format!("build-{batch}/part-{n}.bin"))).collect()
}

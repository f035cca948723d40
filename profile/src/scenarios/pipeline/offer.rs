//! Messages that are offered at a rate, whatever becomes of earlier ones: each call carries many of them down the line.

use std::{collections::BTreeMap, time::Instant};

use futures::{StreamExt, stream::FuturesUnordered};
use nekoproto::{
    MsgId, NoAnswer, Refusal, probe::ProbeEnd, probe::ProbeReply, probe::ProbeRequest, transport::call_until,
};
use tokio::time::sleep_until;

use super::{Pipeline, stand::HOPS, stand::PASSED_ON};
use crate::report::figures::Times;
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
    /// Those that were lost, by reason.
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

//! The functions that every query, or every route probe, goes through.

use nekoindexer::state::holders::Listed;
use nekoindexer::state::merge::{Found, Merge};
use nekoindexer::state::probe::plan;
use nekoindexer::state::{
    Share,
    caller::{Caller, CallerRole},
};
use nekoproto::probe::ProbeRequest;
use nekoproto::{Covered, QueryRequest, Via, codec};
use testkit::values::name;

use crate::plan::workload::sign_record;
use crate::prelude::*;
use crate::scenarios::index::{inside::Inside, name_of};

/// Names in the index; few, as their number changes no instruction that matters.
const NAMES: usize = 64;
/// Bytes that a probe carries: few enough that copying them hides nothing.
const MESSAGE_BYTES: usize = 1400;
const DEADLINE: Duration = Duration::from_secs(2);
const ANSWERS: Share = Share { answers: true, is_remembered: true, ttl_hops: None };

/// A function that every query, or every route probe, goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hot {
    /// Finding a name that is there
    LookupHit,
    /// Finding that a name is not there
    LookupMiss,
    /// Taking note of a message id
    DedupInsert,
    /// Making an answer of what two nodes found
    Merge,
    /// A query to bytes
    EncodeQuery,
    /// Bytes to a query
    DecodeQuery,
    /// An answer with one hit to bytes
    EncodeReply,
    /// Bytes to an answer with one hit
    DecodeReply,
    /// All that an indexer decides about a query that ends here
    AnswerQuery,
    /// A route probe with a message from bytes, to whom it goes next, and to bytes again
    PassProbe,
}

struct Bench {
    inside: Inside,
    caller: Caller,
    now: Instant,
    names: Vec<FileName>,
    missing: Vec<FileName>,
    founds: [Vec<Found>; 2],
}

impl Bench {
    fn new() -> Self {
        let origin = Identity::from_seed(&[1; 32]);
        let at = |port| NodeAddrs::new(origin.id(), [SocketAddr::from(([127, 0, 0, 1], port))]);
        let records: Vec<_> = (0..NAMES).map(|n| sign_record(&origin, &name_of(n))).collect();
        let mut inside = Inside::new(at(1));
        inside.register(&records);
        let found = |port| {
            let (record, holders) =
                (records[0].clone().into(), vec![Listed::here(at(port), Via::Nobody, false, false)]);
            vec![Found { record, holders }]
        };
        Self {
            inside,
            caller: Caller::new((origin.id(), CallerRole::Peer), None),
            now: Instant::now(),
            names: records.iter().map(|record| record.name.clone()).collect(),
            missing: (0..NAMES).map(|n| name(&format!("data-set/none-{n:012}.bin"))).collect(),
            founds: [found(1), found(2)],
        }
    }

    fn request(&self, n: usize) -> QueryRequest {
        let name = self.names[n % NAMES].clone();
        QueryRequest::new(msg_id(n), name, 0)
    }

    /// A query on its way through a mesh of ten.
    fn forwarded(&self) -> QueryRequest {
        let tags = (0..10).map(|n| Identity::from_seed(&[n; 32]).id().tag());
        QueryRequest { covered: Covered::first_of(tags), ttl_hops: 1, ..self.request(1) }
    }

    fn reply(&self) -> QueryReply {
        Merge::new(self.founds[0].clone()).finish()
    }
}

/// Runs `hot` `times` times, within a runtime.
pub fn run(hot: Hot, times: u32) -> Result<()> {
    let bench = Bench::new();
    let rounds = 0..usize::try_from(times)?;
    match hot {
        Hot::LookupHit => rounds.for_each(|n| look_up(&bench, &bench.names[n % NAMES])),
        Hot::LookupMiss => rounds.for_each(|n| look_up(&bench, &bench.missing[n % NAMES])),
        Hot::DedupInsert => rounds.for_each(|n| {
            let (seen, id) = (&bench.inside.state.seen, black_box(msg_id(n)).into());
            black_box(seen.sight(&bench.caller, id, 1, DEADLINE, bench.now));
        }),
        Hot::Merge => rounds.for_each(|_| {
            let [first, second] = bench.founds.clone();
            let mut merge = Merge::new(first);
            second.into_iter().for_each(|found| merge.absorb(found));
            black_box(merge.finish());
        }),
        Hot::EncodeQuery => encode(rounds, &bench.forwarded())?,
        Hot::EncodeReply => encode(rounds, &bench.reply())?,
        Hot::DecodeQuery => decode(rounds, &bench.forwarded())?,
        Hot::DecodeReply => decode(rounds, &bench.reply())?,
        Hot::PassProbe => {
            let tags: Vec<_> = (1..4).map(|n| Identity::from_seed(&[n; 32]).id().tag()).collect();
            let payload = vec![0x5a; MESSAGE_BYTES];
            let bytes = codec::encode(&ProbeRequest { payload, ..ProbeRequest::new(msg_id(1), 2) })?;
            for _ in rounds {
                let request = codec::decode(black_box(&bytes))?;
                let (place, forwarded) = plan(tags[0], &tags[1..], request).next?;
                black_box((place, codec::encode(&forwarded)?));
            }
        }
        Hot::AnswerQuery => {
            for n in rounds {
                let state = &bench.inside.state;
                let (share, local) = state.on_query(&bench.request(n), &bench.caller, DEADLINE, bench.now)?;
                ensure!(share == ANSWERS, "not an answer");
                drop(black_box(Merge::new(local).finish()));
            }
        }
    }
    Ok(())
}

/// The n-th message id: spread as random ones are.
fn msg_id(n: usize) -> MsgId {
    MsgId::from_u128((n as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn look_up(bench: &Bench, name: &FileName) {
    drop(black_box(bench.inside.state.index.lookup(black_box(name), bench.now)));
}

fn decode<T: Serialize + DeserializeOwned>(rounds: Range<usize>, value: &T) -> Result<()> {
    let bytes = codec::encode(value)?;
    for _ in rounds {
        black_box(codec::decode::<T>(black_box(&bytes))?);
    }
    Ok(())
}

fn encode<T: Serialize>(rounds: Range<usize>, value: &T) -> Result<()> {
    for _ in rounds {
        black_box(codec::encode(black_box(value))?);
    }
    Ok(())
}

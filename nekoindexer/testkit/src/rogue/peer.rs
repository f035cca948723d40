//! A connection to an indexer as a peer has one, for what rogue peers register and ask.

use crate::prelude::*;
use std::sync::PoisonError;

use super::{
    Order, RogueError,
    indexer::refused,
    raw::{AGAIN_AFTER, ATTACKER, crowd, dial},
};
use crate::service::{self, Served};
use nekoproto::peer::{PeerServiceRequest as Ask, PeerServiceResponse as Answer};

pub(super) const LONG_NAME_BYTES: usize = 1000;
const RENEWS_EVERY: Duration = Duration::from_secs(5);
const _: () = assert!(LONG_NAME_BYTES <= NAME_BYTES_MAX);

/// Hears what an indexer says, and does nothing about it but to count.
#[derive(Clone, Debug, Default)]
pub struct Silent {
    /// The names of whose newer versions it was told, each once.
    pub told: Arc<Mutex<HashSet<FileName>>>,
}

impl Silent {
    pub fn serve(self) -> ServeFn<Ask, Answer, impl FnOnce(Context, Ask) -> Served<Answer> + Clone> {
        service::peer(move |_, call| async move {
            match call {
                Ask::Invalidate { records } => {
                    let names = records.iter().map(|record| record.unverified().name.clone());
                    self.told.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
                    Ok(Answer::Invalidate(Ok(())))
                }
                Ask::Reached { .. } => Ok(Answer::Reached(Ok(()))),
                Ask::Confirm { .. } => Ok(Answer::Confirm(Ok(List::new()))),
                Ask::Lend { .. } => Ok(Answer::Lend(Ok(None))),
                Ask::Introduce { .. } => Ok(Answer::Introduce(Ok(()))),
                Ask::DialBack { .. } => Err(Refusal::NotCalled),
            }
        })
    }
}

/// A rogue peer: its calls, and the port that it is listed under.
pub(super) struct Peer {
    pub(super) client: IndexerServiceClient,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) listener: Listener,
    pub(super) driver: AbortOnDropHandle<()>,
}

impl Peer {
    pub(super) async fn connect(order: &Order) -> Result<Self, RogueError> {
        let endpoint = order.endpoint(Role::Peer)?;
        let listener = endpoint.bind(ATTACKER)?;
        let connection = dial(&endpoint, order.indexer, Purpose::Control).await?;
        let (client, driver) =
            control::open(connection.io, Silent::default().serve(), IndexerServiceClient::from);
        let driver = AbortOnDropHandle::new(tokio::spawn(driver));
        Ok(Self { client, endpoint, listener, driver })
    }

    /// Registers a batch of records as a complete holder; what is not listed is not.
    pub(super) async fn register(&self, records: Vec<SignedRecord>) -> Result<(), RogueError> {
        let request = RegisterRequest { records: List::first_of(records), announce: false, partial: false };
        let reply = self.client.register(context::current(), request).await;
        reply.map_err(refused)?.map(drop).map_err(refused)
    }

    /// What the network knows of the names in the order.
    pub(super) async fn hits(&self, order: &Order) -> Result<Vec<Hit>, RogueError> {
        let mut hits = Vec::new();
        for name in &order.names {
            let name = FileName::new(name).map_err(refused)?;
            let request = nekoproto::QueryRequest::new(nekoproto::MsgId::random(), name, 3);
            let reply = self.client.query(context::current(), request).await;
            hits.extend(reply.map_err(refused)?.map_err(refused)?.hits);
        }
        Ok(hits)
    }

    pub(super) async fn stays(self) {
        let renew = async {
            loop {
                sleep(RENEWS_EVERY).await;
                drop(self.client.renew(context::current()).await); // refused, it has lapsed
            }
        };
        tokio::select! {
            _ = self.driver => {}
            () = renew => {}
        }
    }
}

pub(super) fn record(
    origin: &Identity,
    name: FileName,
    size: u64,
    content: ContentHash,
    manifest: ManifestHash,
) -> Result<SignedRecord, RogueError> {
    let (policy, version) = (Policy::default(), Version::FIRST);
    let record =
        Record { origin: origin.id(), name, version, size, content, manifest, policy, published_ms: 0 };
    Ok(record.sign(origin).map_err(refused)?.to_signed())
}

/// The n-th name of a kind, of `bytes`.
pub(super) fn made_up(kind: &str, n: usize, bytes: usize) -> Option<FileName> {
    let mut name = format!("rogue/{kind}/{n}/");
    while name.len() + 1 < bytes {
        name += &"x".repeat((bytes - name.len() - 1).min(200));
        name.push('/');
    }
    name.push('y');
    FileName::new(&name).ok()
}

/// Records of these names. An indexer lists what an origin itself registers: one signature does for all.
pub(super) fn made_up_records(
    origin: &Identity,
    kind: &str,
    numbers: Range<usize>,
    bytes: usize,
) -> Result<Vec<SignedRecord>, RogueError> {
    let (content, manifest) = (ContentHash::from_bytes([1; 32]), ManifestHash::from_bytes([2; 32]));
    let first = made_up(kind, numbers.start, bytes).ok_or(RogueError::Lacks("a name"))?;
    let first = record(origin, first, 1, content, manifest)?;
    let named = |n| Some(Record { name: made_up(kind, n, bytes)?, ..first.unverified().clone() });
    let signed = |record| SignedRecord::new(record, *first.signature());
    Ok(numbers.filter_map(named).map(signed).collect())
}

/// Answers to the names in the order: the true records, held by nobody who is there.
pub(super) async fn false_hits(order: &Order) -> Result<HashMap<FileName, QueryReply>, RogueError> {
    let third = order.third.ok_or(RogueError::Lacks("a third party"))?;
    let hits = Peer::connect(order).await?.hits(order).await?;
    let reply = |hit: Hit| {
        let name = hit.record.unverified().name.clone();
        let holder = |_| ListedHolder::new(NodeAddrs::new(Identity::generate().id(), [third]));
        let holders = (0..HOLDERS_MAX).map(holder);
        let hit = Hit { record: hit.record, holders: List::first_of(holders) };
        (name, QueryReply { hits: List::first_of([hit]), complete: true, ..QueryReply::default() })
    };
    Ok(hits.into_iter().map(reply).collect())
}

pub(super) async fn names(
    order: &'static Order,
    keys: usize,
    count: usize,
    bytes: usize,
) -> Result<(), RogueError> {
    crowd(keys, AGAIN_AFTER, move |key| async move {
        let peer = Peer::connect(order).await?;
        for first in (0..count).step_by(BATCH_MAX) {
            let (kind, numbers) = (format!("names-{key}"), first..count.min(first + BATCH_MAX));
            peer.register(made_up_records(peer.endpoint.identity(), &kind, numbers, bytes)?).await?;
        }
        peer.stays().await;
        Ok(())
    })
    .await
}

/// This many peers register a file of their own under one name, whose signature holds or does not.
pub(super) async fn origins(order: &'static Order, count: usize, is_signed: bool) -> Result<(), RogueError> {
    crowd(count, AGAIN_AFTER, move |n| async move {
        let peer = Peer::connect(order).await?;
        let name = FileName::new(&order.bait).map_err(refused)?;
        let content = ContentHash::from_bytes([u8::try_from(n % 256).unwrap_or(0); 32]);
        let manifest = ManifestHash::from_bytes([2; 32]);
        let mut own = record(peer.endpoint.identity(), name, 1, content, manifest)?;
        if !is_signed {
            let other = Record { size: 2, ..own.unverified().clone() };
            own = SignedRecord::new(other, *own.signature());
        }
        peer.register(vec![own]).await?;
        peer.stays().await;
        Ok(())
    })
    .await
}

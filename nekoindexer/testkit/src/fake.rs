//! An indexer that answers what a test wants: stuck, lying, or only taking notes.

use crate::prelude::*;
use std::ops::{Deref, DerefMut};

pub use crate::rogue::Habit;
use crate::rogue::{Heard, Pretender};

use crate::{
    network::ANY_PORT,
    peer::endpoint,
    values::{listed, name, patient},
};

/// How often it says that nothing is new: as indexers do.
const SAYS_NOTHING_EVERY: Duration = Duration::from_secs(1);

/// A made-up indexer that listens. Dropping it ends it.
pub struct Fake {
    pub addr: SocketAddr,
    heard: Heard,
    pretender: Pretender,
    _stop: DropGuard,
}

impl Deref for Fake {
    type Target = Heard;

    fn deref(&self) -> &Heard {
        &self.heard
    }
}

impl DerefMut for Fake {
    fn deref_mut(&mut self) -> &mut Heard {
        &mut self.heard
    }
}

impl Fake {
    pub fn begin(seed: u16, security: Security, habit: Habit) -> Self {
        let listener = endpoint(seed, Role::Indexer, security).bind(ANY_PORT).unwrap();
        let addr = listener.local_addr();
        let (pretender, heard) = Pretender::new(habit);
        let serving = pretender.clone();
        let serve = move |connection: Connection| {
            let (client, driver) = serving.clone().open(connection.io);
            async move {
                let _open = client;
                driver.await;
            }
        };
        let stop = CancellationToken::new();
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serve));
        Self { addr, heard, pretender, _stop: stop.drop_guard() }
    }

    pub fn of_peers(habit: Habit) -> Self {
        Self::begin(200, Security::Tls, habit)
    }

    /// Connects to the indexer at `addr` as a neighbor with these manners, for as long as the runtime lives.
    pub async fn dial(&self, seed: u16, addr: SocketAddr) -> IndexerServiceClient {
        let connection = deaf_neighbor(seed, addr, Security::Insecure).await;
        let (client, driver) = self.pretender.clone().open(connection.io);
        tokio::spawn(driver);
        client
    }
}

pub fn hit(record: SignedRecord, node: u16, addr: SocketAddr) -> Hit {
    Hit { record, holders: List::first_of([listed(node, addr)]) }
}

/// Connects to the indexer at `addr` as a neighbor that never answers anything: it does not even
/// read. The connection lives as long as what is returned.
pub async fn deaf_neighbor(seed: u16, addr: SocketAddr, security: Security) -> Connection {
    endpoint(seed, Role::Indexer, security).dial(addr, Purpose::Control, None).await.unwrap()
}

/// A made-up indexer that connected to another, and never answers a query. Dropping it closes the connection.
pub struct Dialed {
    pub client: IndexerServiceClient,
    pub asked: mpsc::UnboundedReceiver<(Context, QueryRequest)>,
    _driver: AbortOnDropHandle<()>,
}

pub async fn dial(seed: u16, addr: SocketAddr, security: Security, habit: Habit) -> Dialed {
    let connection = deaf_neighbor(seed, addr, security).await;
    let (pretender, Heard { asked, .. }) = Pretender::new(habit);
    let (client, driver) = pretender.open(connection.io);
    Dialed { client, asked, _driver: AbortOnDropHandle::new(tokio::spawn(driver)) }
}

/// What a node with these names says of itself, which trusts these neighbors.
pub fn summary_of<const N: usize>(names: [&str; N], trusts: &[NodeTag]) -> SummaryNews {
    let filter = Filter::for_keys(N.max(1));
    names.iter().for_each(|text| filter.insert(NameKey::of(&name(text))));
    let part = filter.parts().next().unwrap();
    let neighbors = Change::Neighbors(List::first_of(trusts.iter().copied()));
    let changes = List::first_of([Change::Filter { epoch: 1, count: 0, part }, neighbors]);
    SummaryNews { echo_ms: 0, number: 1, begins: true, is_all: true, changes }
}

/// Says `summary` to an indexer, and from then on, as long as the task lives, that nothing is new.
pub async fn advertise(client: &IndexerServiceClient, summary: SummaryNews) -> AbortOnDropHandle<()> {
    let heartbeat = SummaryNews { begins: false, changes: List::new(), ..summary.clone() };
    let say =
        async |client: &IndexerServiceClient, news| client.summarize(patient(), news).await.unwrap().unwrap();
    let first = say(client, summary).await;
    assert!(first.is_taken);
    let dated = move |clock_ms| SummaryNews { echo_ms: clock_ms, ..heartbeat.clone() };
    let mut clock_ms = say(client, dated(first.clock_ms)).await.clock_ms;
    let client = client.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            sleep(SAYS_NOTHING_EVERY).await;
            let answer = client.summarize(patient(), dated(clock_ms)).await;
            let Ok(Ok(reply)) = answer else { return };
            clock_ms = reply.clock_ms;
        }
    }))
}

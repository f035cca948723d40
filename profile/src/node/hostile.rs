//! A holder that serves a file well but for some chunks, which it corrupts. It speaks the protocol
//! itself, as no peer of ours would do that.

use std::sync::{Arc, Mutex};
use std::{fs::File, net::Ipv4Addr, num::NonZeroU64, time::Duration};

use anyhow::Context;
use nekoproto::limits::STALL_TIMEOUT;
use nekoproto::transport::{Connection, DataError, DataStream, Endpoint, Security, control};
use nekoproto::{
    DataReply, DataRequest, FetchRefusal, FileName, Freshness, Grant, Holder, Identity, Manifest,
    PeerService, PeerServiceClient, Purpose, Record, Role,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tarpc::context;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{Corruption, PeerOptions, locked};
use crate::cluster::client::{Client, Silent};
use crate::{cluster::endpoint::endpoint, transfer::files};

/// Bytes sent at once.
const PIECE_BYTES: u64 = 256 << 10;
/// How long a reader may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running hostile holder; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Hostile {
    pub(crate) client: Client,
    _stop: DropGuard,
}

struct Goods {
    file: File,
    manifest: Vec<u8>,
    /// The bytes that it flips, in order.
    flipped: Vec<u64>,
    pace: Pace,
}

impl Hostile {
    /// Asks the indexer for the record and its origin for the manifest, and registers as a holder.
    pub(crate) async fn start(
        peer: &PeerOptions,
        corruption: &Corruption,
        security: Security,
    ) -> anyhow::Result<Self> {
        let identity = Identity::generate();
        let own_node = identity.id();
        let endpoint = endpoint(identity, Role::Peer, security)?;
        let listener = endpoint.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let holder = Holder::new(own_node, listener.local_addr());
        let client = Client::over(&endpoint, peer.indexer, holder).await?;
        let name = FileName::new(&corruption.name)?;
        let reply = client.calls.search(context::current(), name).await??;
        let hit = reply.hits.into_iter().next().context("the file is not registered")?;
        let record = hit.record.unverified();
        let origin = hit.at().into_iter().find(|holder| holder.node == record.origin);
        let origin = origin.context("the origin of the file is not registered")?;
        let manifest = fetch_manifest(&endpoint, &origin, record).await?;
        let goods = Arc::new(Goods {
            file: File::open(&corruption.file).context("cannot open the file to be corrupted")?,
            flipped: flipped(&Manifest::decode_for(record, &manifest)?, corruption.percent, corruption.seed),
            manifest,
            pace: Pace::new(peer.cap_up),
        });
        client.register(vec![hit.record.clone()]).await?;
        let stop = CancellationToken::new();
        let serve = move |connection| serve(Arc::clone(&goods), connection);
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serve));
        Ok(Self { client, _stop: stop.drop_guard() })
    }
}

async fn fetch_manifest(
    endpoint: &Arc<Endpoint>,
    origin: &Holder,
    record: &Record,
) -> anyhow::Result<Vec<u8>> {
    let connection = endpoint.dial(origin.addr, Purpose::Data, Some(origin.node)).await?;
    let mut stream = DataStream::new(connection.io)?;
    let request = DataRequest::Manifest(record.manifest);
    tokio::task::spawn_blocking(move || {
        stream.send(&request)?;
        let grant = stream.receive::<DataReply>(STALL_TIMEOUT)??;
        let mut manifest = vec![0; usize::try_from(grant.len)?];
        stream.receive_bytes(&mut manifest)?;
        Ok(manifest)
    })
    .await?
}

/// The middle of each chunk that is corrupted: at least one.
pub fn flipped(manifest: &Manifest, percent: f64, seed: u64) -> Vec<u64> {
    let mut random = StdRng::seed_from_u64(seed);
    let chunks = manifest.chunks().len();
    let middle = |chunk: usize| {
        let range = manifest.range(chunk);
        range.start + (range.end - range.start) / 2
    };
    let mut chosen: Vec<u64> =
        (0..chunks).filter(|_| random.random_bool(percent / 100.0)).map(middle).collect();
    if chosen.is_empty() && chunks > 0 {
        chosen.push(middle(random.random_range(0..chunks)));
    }
    chosen
}

async fn serve(goods: Arc<Goods>, connection: Connection) {
    if connection.purpose == Purpose::Control {
        let (_client, driver) = control::open(connection.io, Silent.serve(), PeerServiceClient::from);
        return driver.await;
    }
    let Ok(mut stream) = DataStream::new(connection.io) else { return };
    // A reader that has gone away, or that has found out, is no failure.
    let served = tokio::task::spawn_blocking(move || -> Result<(), DataError> {
        loop {
            let request = stream.receive(PATIENCE)?;
            goods.answer(&mut stream, request)?;
        }
    });
    drop(served.await);
}

impl Goods {
    fn answer(&self, stream: &mut DataStream, request: DataRequest) -> Result<(), DataError> {
        let grant = |len| Ok(Grant { len, freshness: Freshness::Fresh });
        match request {
            DataRequest::Manifest(_) => {
                stream.send_with::<DataReply>(&grant(self.manifest.len() as u64), &self.manifest)
            }
            DataRequest::Outboard(_) => stream.send::<DataReply>(&Err(FetchRefusal::NotShared)),
            DataRequest::Have(_) => stream.send::<DataReply>(&grant(0)), // all of it
            DataRequest::Get { ranges, .. } => {
                let len = ranges.iter().map(|range| range.len).sum();
                stream.send::<DataReply>(&grant(len))?;
                for range in ranges.iter() {
                    let end = range.offset + range.len;
                    let mut at = range.offset;
                    while at < end {
                        let len = PIECE_BYTES.min(end - at);
                        self.pace.wait(len);
                        stream.send_bytes(&self.piece(at, len)?)?;
                        at += len;
                    }
                }
                Ok(())
            }
        }
    }

    fn piece(&self, offset: u64, len: u64) -> std::io::Result<Vec<u8>> {
        let len = usize::try_from(len).map_err(std::io::Error::other)?;
        let mut piece = files::read_at(&self.file, offset, len)?;
        files::corrupt(&mut piece, offset, &self.flipped);
        Ok(piece)
    }
}

/// Keeps what is sent to all readers together below a rate.
#[derive(Debug)]
pub struct Pace {
    /// Bytes a second; `None`: as many as go.
    pub per_s: Option<NonZeroU64>,
    /// When the next piece may go.
    pub next: Mutex<Instant>,
}

impl Pace {
    fn new(per_s: Option<NonZeroU64>) -> Self {
        Self { per_s, next: Mutex::new(Instant::now()) }
    }

    fn wait(&self, bytes: u64) {
        if let Some(per_s) = self.per_s {
            let now = Instant::now();
            std::thread::sleep(self.due(now, bytes, per_s).saturating_duration_since(now));
        }
    }

    /// When a piece of `bytes` may go; the next is due later by what this one takes.
    pub fn due(&self, now: Instant, bytes: u64, per_s: NonZeroU64) -> Instant {
        #[expect(clippy::cast_precision_loss, reason = "a piece, and a rate")]
        let takes = Duration::from_secs_f64(bytes as f64 / per_s.get() as f64);
        let mut next = locked(&self.next);
        let due = (*next).max(now);
        *next = due + takes;
        due
    }
}

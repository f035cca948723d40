//! A holder that serves a file well but for some chunks, which it corrupts.

use crate::prelude::*;
use std::{fs::File, os::unix::fs::FileExt};

use parking_lot::Mutex;

use super::{
    Attack, Order, RogueError,
    indexer::refused,
    peer::Peer,
    script::{self, ScriptedReply},
};

const PIECE_BYTES: usize = 256 << 10;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Corruption {
    pub file: PathBuf,
    pub name: String,
    /// Percent of its chunks that are corrupted.
    pub percent: f64,
    pub seed: u64,
    /// File bytes a second that it sends at most.
    pub per_s: Option<NonZeroU64>,
}

/// A running holder that corrupts; dropping it ends it.
pub struct CorruptHolder {
    pub holder: Holder,
    _client: IndexerServiceClient,
    _driver: AbortOnDropHandle<()>,
    _stop: DropGuard,
}

struct Goods {
    file: File,
    manifest: Vec<u8>,
    /// The bytes that it flips, in order.
    flipped: Vec<u64>,
    pace: Pace,
}

impl CorruptHolder {
    /// Asks the indexer for the record and its origin for the manifest, and registers as a holder.
    pub async fn start(indexer: SocketAddr, insecure: bool, what: &Corruption) -> Result<Self, RogueError> {
        let (names, bait) = (vec![what.name.clone()], String::new());
        let (peer, third, other, http) = (None, None, None, None);
        let attack = Attack::Drip;
        let order = Order { attack, insecure, indexer, other, http, peer, names, bait, third };
        let peer = Peer::connect(&order).await?;
        let hit =
            peer.hits(&order).await?.into_iter().next().ok_or(RogueError::Lacks("a registered file"))?;
        let record = hit.record.unverified();
        let origin = hit.at().into_iter().find(|holder| holder.node == record.origin);
        let origin = origin.ok_or(RogueError::Lacks("a registered origin"))?;
        let manifest = fetch_manifest(&peer.endpoint, &origin, record).await?;
        let chunks = Manifest::decode_for(record, &manifest).map_err(refused)?;
        let goods = Arc::new(Goods {
            file: File::open(&what.file)?,
            flipped: flipped(&chunks, what.percent, what.seed),
            manifest,
            pace: Pace::new(what.per_s),
        });
        peer.register(vec![hit.record.clone()]).await?;
        let Peer { client, endpoint, listener, driver } = peer;
        let holder = Holder::new(endpoint.node(), listener.local_addr());
        let stop = CancellationToken::new();
        let serve = move |connection| {
            let goods = Arc::clone(&goods);
            script::serve(connection, move |request| goods.reply(request))
        };
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serve));
        Ok(Self { holder, _client: client, _driver: driver, _stop: stop.drop_guard() })
    }
}

async fn fetch_manifest(
    endpoint: &Arc<Endpoint>,
    origin: &Holder,
    record: &Record,
) -> Result<Vec<u8>, RogueError> {
    let connection = endpoint.dial(origin.addr, Purpose::Data, Some(origin.node)).await?;
    let mut stream = DataStream::new(connection.io)?;
    let request = DataRequest::Manifest(record.manifest);
    tokio::task::spawn_blocking(move || {
        stream.send(&request).map_err(refused)?;
        let grant = stream.receive::<DataReply>(STALL_TIMEOUT).map_err(refused)?.map_err(refused)?;
        let mut manifest = vec![0; usize::try_from(grant.len).map_err(io::Error::other)?];
        stream.receive_bytes(&mut manifest).map_err(refused)?;
        Ok(manifest)
    })
    .await
    .map_err(refused)?
}

/// The middle of each chunk that is corrupted: at least one.
fn flipped(manifest: &Manifest, percent: f64, seed: u64) -> Vec<u64> {
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

impl Goods {
    fn reply(self: &Arc<Self>, request: &DataRequest) -> ScriptedReply {
        match request {
            DataRequest::Manifest(_) => ScriptedReply::of(self.manifest.clone()),
            DataRequest::Outboard(_) | DataRequest::Confirm(_) | DataRequest::Packed { .. } => {
                ScriptedReply::refusal(FetchRefusal::NotShared)
            }
            DataRequest::Have(_) => ScriptedReply::of(Vec::new()), // all of it
            DataRequest::Get { ranges, .. } => {
                let (ranges, goods) = (ranges.clone(), Arc::clone(self));
                let len = ranges.iter().map(|range| range.len).sum();
                let pieces = ranges.into_iter().flat_map(|ByteRange { offset, len }| {
                    let starts = (0..len).step_by(PIECE_BYTES);
                    starts.map(move |at| (offset + at, (PIECE_BYTES as u64).min(len - at)))
                });
                ScriptedReply::in_pieces(
                    len,
                    pieces.map(move |(at, len)| {
                        goods.pace.wait(len);
                        goods.piece(at, len)
                    }),
                )
            }
        }
    }

    fn piece(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut piece = vec![0; len];
        self.file.read_exact_at(&mut piece, offset)?;
        corrupt(&mut piece, offset, &self.flipped);
        Ok(piece)
    }
}

/// Flips a bit of those bytes of `piece` that lie at one of `places`, which are in order; the piece begins
/// at `offset` of the file.
fn corrupt(piece: &mut [u8], offset: u64, places: &[u64]) {
    let end = offset + piece.len() as u64;
    let from = places.partition_point(|place| *place < offset);
    for place in places[from..].iter().take_while(|place| **place < end) {
        if let Some(byte) = usize::try_from(place - offset).ok().and_then(|at| piece.get_mut(at)) {
            *byte ^= 1;
        }
    }
}

/// Keeps what is sent to all readers together below a rate.
#[derive(Debug)]
struct Pace {
    /// Bytes a second; `None`: as many as go.
    per_s: Option<NonZeroU64>,
    next: Mutex<Instant>,
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
    fn due(&self, now: Instant, bytes: u64, per_s: NonZeroU64) -> Instant {
        #[expect(clippy::cast_precision_loss, reason = "a piece, and a rate")]
        let takes = Duration::from_secs_f64(bytes as f64 / per_s.get() as f64);
        let mut next = self.next.lock();
        let due = (*next).max(now);
        *next = due + takes;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nekoproto::{Chunk, ChunkHash};

    #[test]
    fn the_seed_chooses_which_chunks_are_corrupted() {
        let chunk = Chunk { len: 100, hash: ChunkHash::from_bytes([0; 32]) };
        let manifest = Manifest::new(vec![chunk; 1000]).unwrap();
        let chosen = flipped(&manifest, 5.0, 7);
        assert!((20..100).contains(&chosen.len()), "{}", chosen.len());
        assert!(chosen.is_sorted() && chosen.iter().all(|at| at % 100 == 50));
        assert_eq!(chosen, flipped(&manifest, 5.0, 7));
        assert_eq!(flipped(&Manifest::new(vec![chunk; 3]).unwrap(), 0.001, 7).len(), 1, "at least one");
    }

    #[test]
    fn only_the_chosen_places_of_a_piece_are_corrupted() {
        let mut piece = vec![0; 10];
        corrupt(&mut piece, 100, &[5, 99, 100, 104, 109, 110]);
        assert_eq!(piece, [1, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn pieces_are_due_at_the_rate() {
        let (per_s, now) = (NonZeroU64::new(1000).unwrap(), Instant::now());
        let pace = Pace { per_s: Some(per_s), next: Mutex::new(now) };
        let due: Vec<u128> = (0..11).map(|_| (pace.due(now, 100, per_s) - now).as_millis()).collect();
        assert_eq!((due[0], due[1], due[10]), (0, 100, 1000));
        let later = now + Duration::from_secs(60);
        assert_eq!(pace.due(later, 100, per_s), later, "a pause gives no right to hurry");
    }
}

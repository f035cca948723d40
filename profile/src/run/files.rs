//! The files that are transferred: made from a seed, changed, and held against what arrived.
//! Everything here blocks.

use std::io::{BufWriter, Seek, SeekFrom};

use blake3::{Hash, OutputReader};

use crate::prelude::*;
use crate::report::bytes;

const BLOCK_BYTES: usize = 1 << 20;
/// Bytes at either end of a sparse file that are no hole.
const EDGE_BYTES: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Bytes, the hole included.
    pub size: u64,
    /// Nearly all of it is a hole.
    pub sparse: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Share of the bytes that change, in percent.
    pub percent: f64,
    pub places: u64,
    pub how: How,
}

/// How a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// Other bytes stand where these were
    InPlace,
    /// More bytes stand between them
    Insert,
}

impl Change {
    /// Bytes at each place, for a file of `size` bytes.
    #[expect(clippy::cast_possible_truncation, reason = "a share of the size")]
    pub fn bytes_each(&self, size: u64) -> u64 {
        (bytes(size) * self.percent / 100.0 / bytes(self.places)) as u64
    }
}

pub fn make(path: &Path, bulk: Bulk, seed: u64) -> io::Result<()> {
    let mut random = random(seed);
    let mut file = File::create(path)?;
    if !bulk.sparse {
        return write_random(&mut file, &mut random, bulk.size);
    }
    file.set_len(bulk.size)?;
    let edge = EDGE_BYTES.min(bulk.size);
    write_random(&mut file, &mut random, edge)?;
    file.seek(SeekFrom::Start(bulk.size - edge))?;
    write_random(&mut file, &mut random, edge)
}

/// Bytes without end that follow from `seed`.
fn random(seed: u64) -> OutputReader {
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof()
}

fn write_random(out: &mut impl Write, random: &mut OutputReader, bytes: u64) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BLOCK_BYTES, out);
    io::copy(&mut Read::by_ref(random).take(bytes), &mut out)?;
    out.flush()
}

/// Makes `count` files in the new folder `folder`; returns their names, in order.
pub fn make_small(
    folder: &Path,
    count: usize,
    (least, most): (u64, u64),
    seed: u64,
) -> io::Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    let (mut lengths, mut random) = (StdRng::seed_from_u64(seed), random(seed));
    (0..count)
        .map(|n| {
            let name = format!("{n:07}.bin");
            let bytes = lengths.random_range(least..=most);
            write_random(&mut File::create(folder.join(&name))?, &mut random, bytes)?;
            Ok(name)
        })
        .collect()
}

/// Changes the file at `path` as `change` says; the places are spread evenly over it.
pub fn change(path: &Path, change: Change, seed: u64) -> io::Result<()> {
    let size = fs::metadata(path)?.len();
    let mut chance = StdRng::seed_from_u64(seed);
    let each = change.bytes_each(size);
    let step = size / change.places.max(1);
    // Somewhere within each step, so that chunks are not hit at the same place every time.
    let room = step.saturating_sub(each).max(1);
    let places: Vec<u64> = (0..change.places).map(|n| n * step + chance.random_range(0..room)).collect();
    match change.how {
        How::InPlace => overwrite(path, &places, each, &mut random(seed)),
        How::Insert => insert(path, &places, each, &mut random(seed)),
    }
}

fn overwrite(path: &Path, places: &[u64], each: u64, random: &mut OutputReader) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    for place in places {
        file.seek(SeekFrom::Start(*place))?;
        write_random(&mut file, random, each)?;
    }
    Ok(())
}

fn insert(path: &Path, places: &[u64], each: u64, random: &mut OutputReader) -> io::Result<()> {
    let fresh = path.with_extension("fresh");
    let (mut old, mut new) = (File::open(path)?, File::create(&fresh)?);
    let mut at = 0;
    for place in places {
        io::copy(&mut Read::by_ref(&mut old).take(place - at), &mut new)?;
        write_random(&mut new, random, each)?;
        at = *place;
    }
    io::copy(&mut old, &mut new)?;
    fs::rename(fresh, path)
}

pub fn hash(path: &Path) -> io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize())
}

/// Whether the file at `path` has this hash; one that is not there has not.
pub fn is_right(path: &Path, hash_of_source: &Hash) -> io::Result<bool> {
    match hash(path) {
        Ok(hash) => Ok(hash == *hash_of_source),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Runs blocking work on a thread of its own. When this is dropped nobody waits for that: Ctrl-C ends
/// the program while a large file is being written.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (sender, done) = oneshot::channel();
    thread::Builder::new().name("files".to_owned()).spawn(move || {
        let _ = sender.send(work()); // nobody waits any more
    })?;
    done.await.context("a thread that works on files panicked")?
}

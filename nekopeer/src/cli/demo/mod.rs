//! The demo: the whole story in one process, as what users type, on real sockets and real files in a temporary folder.
//! Every step is checked; the first failed check ends the demo with an error.

mod network;
mod sets;

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, ensure};
use nekoindexer::daemon::signals::Stop;

use self::network::{Actor, DemoNetwork, QUIET, heard};
use super::{Ended, unless_stopped};
use crate::{
    api::{DownloadedRow, Row},
    library::events::Event,
    state::freshness::OnStale,
};

const MIB: u64 = 1024 * 1024;
const PIECE: usize = 1024 * 1024;
/// The versions of weights.bin that are followed, and the one that the command refuses.
const FOLLOWED: std::ops::RangeInclusive<u64> = 3..=5;
const REFUSED: u64 = 4;

fn say(text: &str) -> io::Result<()> {
    text.lines().try_for_each(|line| QUIET.line(line))
}

/// Runs the demo; the large file has `size_mib` MiB. Its folder is removed at the end, also where the user ends it.
pub(super) async fn run(size_mib: u64) -> anyhow::Result<Ended> {
    let told = unless_stopped(&mut Stop::new()?, Box::pin(tell(size_mib))).await;
    told.unwrap_or(Ok(Ended::Interrupted))
}

async fn tell(size_mib: u64) -> anyhow::Result<Ended> {
    let started = Instant::now();
    say("nekop2p demo: three indexers in a line, four peers, real files, TLS everywhere")?;
    let network = DemoNetwork::start().await?;
    say(&format!("   indexers  west - middle - east   (in {})", network.folder().display()))?;
    say("   peers     origin at west; cache and mirror at east; reader at middle")?;
    let origin = network.peer("origin", DemoNetwork::WEST, OnStale::Keep).await?;
    let cache = network.peer("cache", DemoNetwork::EAST, OnStale::Keep).await?;
    let mirror = network.peer("mirror", DemoNetwork::EAST, OnStale::Refetch).await?;
    let reader = network.peer("reader", DemoNetwork::MIDDLE, OnStale::Keep).await?;

    share_and_find(&origin, &cache, size_mib * MIB).await?;
    let bytes = size_mib * MIB;
    get(&origin, &cache, "dataset.bin", |done| done.bytes_moved == bytes).await?;
    get(&origin, &mirror, "weights.bin", |done| done.bytes_moved == 8 * MIB).await?;

    say("\n4. origin goes away; reader gets dataset.bin from the cache")?;
    origin.leaves().await;
    get(&cache, &reader, "dataset.bin", |done| done.sources.len() == 1 && done.bytes_moved == bytes).await?;
    drop(origin); // its data folder is free
    let origin = network.peer("origin", DemoNetwork::WEST, OnStale::Keep).await?;

    say(
        "\n5. origin is back, changes 1 MiB in the middle of both files, to one byte that packs well, and shares them",
    )?;
    let mut events = (cache.events(), mirror.events());
    for name in ["dataset.bin", "weights.bin"] {
        change_middle(&origin.file(name), MIB)?;
    }
    origin.types("share dataset.bin weights.bin").await?;
    say("(cache hears of it by push, mirror asks and refetches)")?;
    heard(&mut events.0, |event| matches!(event, Event::Invalidated { newest, .. } if newest.get() == 2))
        .await?;
    heard(&mut events.1, |event| matches!(event, Event::Refreshed { version, .. } if version.get() == 2))
        .await?;
    ensure_same(&mirror.file("weights.bin"), &origin.file("weights.bin"))?;
    cache.types("ls").await?;

    say("\n6. cache gets version 2: only what changed moves")?;
    get(&origin, &cache, "dataset.bin", |done| done.bytes_moved < bytes / 4 + 4 * MIB).await?;
    follow(&origin, &reader).await?;
    sets::switch(&origin, &reader).await?;
    for actor in [origin, cache, mirror, reader] {
        actor.leaves().await;
    }
    network.stop().await;
    say(&format!("all as it should be, in {:.1} s", started.elapsed().as_secs_f64()))?;
    Ok(Ended::Well)
}

/// Shares a folder, a large file under push and a small one under pull; and looks for the large one from two hops away.
async fn share_and_find(origin: &Actor, cache: &Actor, large: u64) -> anyhow::Result<()> {
    say("\n1. origin shares a folder, a large file (push) and a small one (pull)")?;
    let folder = origin.file("course");
    std::fs::create_dir_all(folder.join("week-1"))?;
    std::fs::write(folder.join("syllabus.md"), "week 1: what a copy knows of its origin\n")?;
    std::fs::write(folder.join("week-1/slides.txt"), "a file that changes needs a version\n")?;
    write_random(&origin.file("dataset.bin"), large, 1)?;
    write_random(&origin.file("weights.bin"), 8 * MIB, 2)?;
    let mut shared = 0;
    for line in ["share course", "share dataset.bin --policy push", "share weights.bin --policy pull --ttr 1"]
    {
        shared += origin.types(line).await?.len();
    }
    ensure!(shared == 4, "four files were to be shared, not {shared}");
    say("\n2. cache looks for dataset.bin, which is listed two hops away")?;
    for (line, found) in [("query dataset.bin --ttl 1", 0), ("query dataset.bin --ttl 2", 1)] {
        let rows = cache.types(line).await?;
        let hits = rows.first().and_then(Row::parse::<serde_json::Value>).context("there is no answer")?;
        ensure!(hits["hits"].as_array().map(Vec::len) == Some(found), "{line}: {hits}");
        if found == 0 {
            say("(nobody shares it within one hop)")?;
        }
    }
    say("\n3. cache gets dataset.bin from the origin, mirror gets weights.bin")?;
    Ok(())
}

/// Gets a file, whose bytes are then those of `source`.
async fn get(
    source: &Actor,
    reader: &Actor,
    name: &str,
    is_right: impl Fn(&DownloadedRow) -> bool,
) -> anyhow::Result<()> {
    let rows = reader.types(&format!("get {name}")).await?;
    let done: DownloadedRow = rows.first().and_then(Row::parse).context("there is no answer")?;
    ensure!(is_right(&done), "{name}: {done:?}");
    ensure_same(&reader.file(name), &source.file(name))
}

/// Follows a file with a command that refuses one version, and goes back to the one before.
async fn follow(origin: &Actor, reader: &Arc<Actor>) -> anyhow::Result<()> {
    say(&format!("\n7. reader follows weights.bin, with a command that refuses version {REFUSED}"))?;
    let line = "follow weights.bin --exec 'test $NEKO_VERSION != 4' --keep 2";
    say(&format!("reader$ nekopeer {line}"))?;
    let mut events = reader.events();
    let _following = reader.goes_on(line);
    let is_news = |event: &Event| matches!(event, Event::Followed { .. } | Event::Refused { .. });
    heard(&mut events, is_news).await?;
    for version in FOLLOWED {
        write_random(&origin.file("weights.bin"), MIB, version)?;
        origin.types("share weights.bin --policy push").await?;
        let event = heard(&mut events, is_news).await?;
        ensure!(matches!(event, Event::Refused { .. }) == (version == REFUSED), "version {version}: {event}");
        if version != REFUSED {
            ensure_same(&reader.file("weights.bin"), &origin.file("weights.bin"))?;
        }
    }
    let back = reader.types("rollback weights.bin 3").await?;
    let back: DownloadedRow = back.first().and_then(Row::parse).context("there is no answer")?;
    ensure!(back.version.version == 3 && back.bytes_moved == 0, "the rollback is not right: {back:?}");
    Ok(())
}

/// Writes `bytes` bytes that do not repeat, the same for the same seed.
fn write_random(path: &Path, bytes: u64, seed: u64) -> io::Result<()> {
    let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    io::copy(&mut (&mut random).take(bytes), &mut BufWriter::with_capacity(PIECE, File::create(path)?))?;
    Ok(())
}

fn change_middle(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let len = usize::try_from(bytes).unwrap_or(PIECE);
    file.write_all_at(&vec![0xa5; len], file.metadata()?.len() / 2)
}

fn ensure_same(one: &Path, other: &Path) -> anyhow::Result<()> {
    let hash = |path: &Path| -> io::Result<_> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        Ok(hasher.finalize())
    };
    ensure!(hash(one)? == hash(other)?, "{} is not {}", one.display(), other.display());
    Ok(())
}

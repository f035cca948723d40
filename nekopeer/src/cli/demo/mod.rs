//! The demo: the whole story in one process, on real sockets and real files in a temporary folder.
//! Every step is checked; the first failed check ends the demo with an error.

mod files;
mod following;
mod sets;
mod stage;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nekoproto::{Freshness, Mode, Policy, Staleness};

use self::{
    files::{change_middle, hash_file, write_random},
    stage::{Actor, Stage, next_event, within},
};
use super::Ended;
use crate::{
    download::DownloadOptions,
    library::{events::Event, status::Condition},
    state::freshness::OnStale,
    terminal::{Output, units::size},
};

const MIB: u64 = 1024 * 1024;
/// Time limit for news of a new version to arrive.
const NEWS_WITHIN: Duration = Duration::from_secs(10);

/// Runs the demo; the large file has `size_mib` MiB.
pub(super) async fn run(output: &Output, size_mib: u64) -> anyhow::Result<Ended> {
    let started = Instant::now();
    let say = |text: String| text.lines().try_for_each(|line| output.line(line));
    say("nekop2p demo: three indexers in a line, four peers, real files, TLS everywhere".to_owned())?;
    let stage = Stage::set().await?;
    say(format!("  indexers  west - middle - east   (in {})", stage.folder().display()))?;
    say("  peers     origin at west; cache and mirror at east; reader at middle".to_owned())?;

    let mut origin = stage.peer("origin", Stage::WEST, OnStale::Keep).await?;
    let mut cache = stage.peer("cache", Stage::EAST, OnStale::Keep).await?;
    let mut mirror = stage.peer("mirror", Stage::EAST, OnStale::Refetch).await?;
    let mut reader = stage.peer("reader", Stage::MIDDLE, OnStale::Keep).await?;

    share(&origin, size_mib * MIB, &say).await?;
    find(&cache, &say).await?;
    download_from_origin(&cache, &mirror, &say).await?;
    origin = download_from_cache(&stage, origin, &reader, &say).await?;
    publish_again(&origin, &mut cache, &mut mirror, &say).await?;
    download_change(&origin, &cache, size_mib * MIB, &say).await?;
    following::follow(&origin, &mut reader, &say).await?;
    sets::switch(&origin, &reader, &say).await?;

    for actor in [origin, cache, mirror, reader] {
        actor.peer.shutdown().await;
    }
    stage.strike().await;
    say(format!("all as it should be, in {:.1} s", started.elapsed().as_secs_f64()))?;
    Ok(Ended::Well)
}

/// Publishes a folder under the default policy, a large file under push and a small one under pull.
async fn share(
    origin: &Actor,
    large: u64,
    say: &impl Fn(String) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    say("\n1. origin shares a folder, a large file (push) and a small one (pull)".to_owned())?;
    let folder = origin.file("course");
    std::fs::create_dir_all(folder.join("week-1"))?;
    std::fs::write(folder.join("syllabus.md"), "week 1: what a copy knows of its origin\n")?;
    std::fs::write(folder.join("week-1/slides.txt"), "a file that changes needs a version\n")?;
    write_random(&origin.file("dataset.bin"), large, 1)?;
    write_random(&origin.file("weights.bin"), 8 * MIB, 2)?;
    let push = Policy::new(Mode::Push, 60, 60, Staleness::ServeStale)?;
    let pull = Policy::new(Mode::Pull, 60, 1, Staleness::ServeStale)?;
    let mut files = 0;
    for (path, policy) in [("course", None), ("dataset.bin", Some(push)), ("weights.bin", Some(pull))] {
        let started = Instant::now();
        let outcome = origin.publish(path, policy).await?;
        ensure!(outcome.failed.is_empty(), "{path} was not shared: {:?}", outcome.failed);
        ensure!(outcome.indexers_told == 1, "the indexer did not take {path}");
        files += outcome.published.len();
        let bytes = outcome.published.iter().map(|record| record.size).sum();
        let took = started.elapsed().as_secs_f64();
        say(format!(
            "   {path:<12} {} file(s), {:>8}, version 1, in {took:.2} s",
            outcome.published.len(),
            size(bytes)
        ))?;
    }
    ensure!(files == 4, "four files were to be shared, not {files}");
    Ok(())
}

/// Finds a file two hops away: east - middle - west.
async fn find(cache: &Actor, say: &impl Fn(String) -> std::io::Result<()>) -> anyhow::Result<()> {
    say("\n2. cache looks for dataset.bin".to_owned())?;
    let name = "dataset.bin".parse()?;
    let own = cache.peer.search(&name).await?;
    ensure!(own.candidates.is_empty(), "its own indexer knows the file already");
    for (ttl_hops, found) in [(1, 0), (2, 1)] {
        let started = Instant::now();
        let answer = cache.peer.query(&name, ttl_hops).await?;
        ensure!(answer.complete, "not every indexer answered");
        ensure!(answer.candidates.len() == found, "{} hits with TTL {ttl_hops}", answer.candidates.len());
        let took = started.elapsed().as_micros();
        say(format!(
            "   {ttl_hops} hop(s) away: {} in {took} us",
            if found == 0 { "nobody" } else { "found" }
        ))?;
    }
    Ok(())
}

async fn download_from_origin(
    cache: &Actor,
    mirror: &Actor,
    say: &impl Fn(String) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    say("\n3. cache downloads dataset.bin from the origin, mirror downloads weights.bin".to_owned())?;
    for (actor, name) in [(cache, "dataset.bin"), (mirror, "weights.bin")] {
        let done = actor.download(name).await?;
        ensure!(done.bytes_moved == done.record.size, "{name}: {} bytes moved", done.bytes_moved);
        say(format!("   {}", told(actor, &done)?))?;
    }
    Ok(())
}

/// Downloads the file from the cache after its origin has ended.
async fn download_from_cache(
    stage: &Stage,
    origin: Actor,
    reader: &Actor,
    say: &impl Fn(String) -> std::io::Result<()>,
) -> anyhow::Result<Actor> {
    say("\n4. origin goes away; reader downloads dataset.bin from the cache".to_owned())?;
    origin.peer.shutdown().await;
    let done = reader.download("dataset.bin").await?;
    ensure!(
        done.sources.len() == 1 && done.bytes_moved == done.record.size,
        "not one full copy from one source"
    );
    say(format!("   {}", told(reader, &done)?))?;
    let origin = stage.peer("origin", Stage::WEST, OnStale::Keep).await?;
    say("   origin is back, with the same key and its catalogue".to_owned())?;
    Ok(origin)
}

async fn publish_again(
    origin: &Actor,
    cache: &mut Actor,
    mirror: &mut Actor,
    say: &impl Fn(String) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    say("\n5. origin changes 1 MiB in the middle of both files and shares them again".to_owned())?;
    for name in ["dataset.bin", "weights.bin"] {
        change_middle(&origin.file(name), MIB)?;
    }
    let started = Instant::now();
    for (name, mode) in [("dataset.bin", Mode::Push), ("weights.bin", Mode::Pull)] {
        let outcome = origin
            .publish(
                name,
                Some(Policy::new(mode, 60, if mode == Mode::Pull { 1 } else { 60 }, Staleness::ServeStale)?),
            )
            .await?;
        let record = outcome.published.first().with_context(|| format!("{name} has no new version"))?;
        ensure!(record.version.get() == 2, "{name} has version {}", record.version);
    }
    let published = Instant::now();
    say(format!("   version 2 of both in {:.2} s", (published - started).as_secs_f64()))?;

    let invalidated = |event: &Event| matches!(event, Event::Invalidated { name, newest, .. } if name.as_str() == "dataset.bin" && newest.get() == 2);
    within(NEWS_WITHIN, "the push", next_event(cache, invalidated)).await?;
    let status = cache.status("dataset.bin").await?;
    ensure!(status.condition == Condition::Good(Freshness::Stale), "the cache calls it {}", status.condition);
    say(format!(
        "   push: cache knows {:.0} ms later that its version {} is stale",
        published.elapsed().as_secs_f64() * 1e3,
        status.record.version
    ))?;

    let refreshed = |event: &Event| matches!(event, Event::Refreshed { name, version, .. } if name.as_str() == "weights.bin" && version.get() == 2);
    let event = within(NEWS_WITHIN, "the pull", next_event(mirror, refreshed)).await?;
    let Event::Refreshed { bytes_moved, .. } = event else { unreachable!("only such events are waited for") };
    let same = hash_file(&mirror.file("weights.bin"))? == hash_file(&origin.file("weights.bin"))?;
    ensure!(same, "the mirror's weights.bin is not the origin's");
    say(format!(
        "   pull: mirror asked, and has version 2 after {:.1} s; {} of {} moved",
        published.elapsed().as_secs_f64(),
        size(bytes_moved),
        size(8 * MIB)
    ))?;
    Ok(())
}

async fn download_change(
    origin: &Actor,
    cache: &Actor,
    large: u64,
    say: &impl Fn(String) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    say("\n6. cache downloads version 2: only what changed moves".to_owned())?;
    let done = cache.download("dataset.bin").await?;
    ensure!(done.record.version.get() == 2, "it got version {}", done.record.version);
    ensure!(done.bytes_moved < large / 4 + 4 * MIB, "{} moved", size(done.bytes_moved));
    let same = hash_file(&cache.file("dataset.bin"))? == hash_file(&origin.file("dataset.bin"))?;
    ensure!(same, "the cache's dataset.bin is not the origin's");
    Ok(say(format!("   {}", told(cache, &done)?))?)
}

/// One line about a download; reads the file on disk and verifies its hash first.
fn told(actor: &Actor, done: &crate::Downloaded) -> anyhow::Result<String> {
    let found = hash_file(&done.path)?;
    ensure!(found == done.record.content, "{} on disk has hash {found}", done.path.display());
    Ok(format!(
        "{:<7} {} version {}, {} of {} moved in {:.2} s, b3sum {}",
        actor.name,
        done.record.name,
        done.record.version,
        size(done.bytes_moved),
        size(done.record.size),
        done.took.as_secs_f64(),
        found.short(),
    ))
}

impl Actor {
    async fn download(&self, name: &str) -> anyhow::Result<crate::Downloaded> {
        let options = DownloadOptions { ttl_hops: 2, ..DownloadOptions::default() };
        self.peer
            .download(&name.parse()?, options, &std::sync::Arc::default())
            .await
            .with_context(|| format!("{} cannot download {name}", self.name))
    }
}

//! The part of the demo in which a folder changes as one version, while somebody lists it.

use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, ensure};
use cap_std::{ambient_authority, fs::Dir};

use super::{MIB, ensure_same, network::Actor, say, write_random};
use crate::{
    api::{DownloadedRow, Row},
    terminal::units::size,
};

/// Versions after the first one.
const SWITCHES: u64 = 20;
/// Files of each version that are called after it.
const PARTS: u64 = 5;
/// Size of the file that stays the same.
const BYTES: u64 = 4 * MIB;

pub(super) async fn switch(origin: &Actor, reader: &Actor) -> anyhow::Result<()> {
    say("\n8. origin shares the folder build as a set; reader has it, and lists it without a pause")?;
    let (built, place) = (origin.file("build"), reader.file("build"));
    build(&built, 1)?;
    origin.types("share --set build").await?;
    reader.types("get build").await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let listing = {
        let (place, is_over) = (place.clone(), Arc::clone(&is_over));
        tokio::task::spawn_blocking(move || list_on_and_on(&place, &is_over))
    };
    let switching = async {
        let mut moved = 0;
        for version in 2..=SWITCHES + 1 {
            build(&built, version)?;
            origin.done("share --set build").await?;
            let (_, rows) = reader.done("get build").await?;
            let done: DownloadedRow = rows.first().and_then(Row::parse).context("there is no answer")?;
            ensure!(done.version.version == version, "it got version {}", done.version.version);
            moved += done.bytes_moved;
        }
        anyhow::Ok(moved)
    };
    let moved = switching.await;
    is_over.store(true, Ordering::Relaxed);
    let (listed, versions) = listing.await?.context("what the reader lists is not one version")?;
    let moved = moved?;
    ensure!(moved < BYTES, "{} moved", size(moved));
    ensure_same(&place.join("same"), &built.join("same"))?;
    let (least, most) = (versions.first().copied().unwrap_or(0), versions.last().copied().unwrap_or(0));
    say(&format!(
        "{SWITCHES} further versions, {} moved for all; {listed} listings saw one version each, of {least} to {most}",
        size(moved)
    ))?;
    Ok(())
}

fn build(folder: &Path, version: u64) -> io::Result<()> {
    let parts = folder.join("parts");
    drop(fs::remove_dir_all(&parts));
    fs::create_dir_all(&parts)?;
    (0..PARTS)
        .try_for_each(|part| fs::write(parts.join(format!("{version}-{part}")), version.to_string()))?;
    if version == 1 { write_random(&folder.join("same"), BYTES, 3) } else { Ok(()) }
}

/// Lists the folder until `is_over`; how often, and which versions were seen.
fn list_on_and_on(place: &Path, is_over: &AtomicBool) -> anyhow::Result<(u64, BTreeSet<u64>)> {
    let (mut listed, mut versions) = (0, BTreeSet::new());
    while !is_over.load(Ordering::Relaxed) {
        let folder = Dir::open_ambient_dir(place, ambient_authority())?;
        let names = folder.open_dir("parts")?.entries()?.map(|entry| Ok(entry?.file_name()));
        let names = names.collect::<io::Result<BTreeSet<_>>>()?;
        let of = |name: &std::ffi::OsString| name.to_str()?.split_once('-')?.0.parse::<u64>().ok();
        let found: BTreeSet<Option<u64>> = names.iter().map(of).collect();
        ensure!(found.len() == 1 && names.len() as u64 == PARTS, "a mixture: {names:?}");
        versions.extend(found.into_iter().flatten());
        listed += 1;
    }
    Ok((listed, versions))
}

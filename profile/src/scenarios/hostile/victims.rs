//! Who is attacked besides those that ask: readers, somebody who takes the bait, a third party.

use std::os::unix::fs::MetadataExt;

use testkit::{rogue::Attack, rogue::SQUATTERS};
use tokio::{net::TcpListener, time::Instant, time::MissedTickBehavior};

use super::{beside::Door, beside::News, judge::Judged, judge::RECOVERED_WITHIN};
use crate::arena::{self, Arena, load::Found, load::Kind};
use crate::cluster::net::Peers;
use crate::scenarios::prelude::*;

const GETS_PER_S: u32 = 8;
/// A file of 64 KiB that has not come by then has failed.
const GET_WITHIN: Duration = Duration::from_secs(8);
/// From the begin of an attack to what honest nodes do because of it.
const PROVOKED_AFTER: Duration = Duration::from_secs(1);
/// An honest node that has come is part of the network by then.
const LINKED_AFTER: Duration = Duration::from_secs(2);
/// An attack that needs time to build up stands by then.
const STANDS_WITHIN: Duration = Duration::from_secs(10);
/// Names of a peer that was there before.
const ELDER_NAMES: usize = amount(20_000);
/// How many of them are asked for.
const ELDER_ASKED: usize = 4;
/// Connections that a download may make to an address where no key proved itself.
const UNPROVEN_MAX: u64 = 2;
/// Disk that a bait may take.
const DISK_MIB: f64 = 256.0;

pub(super) struct Victims {
    third: Arc<AtomicU64>,
    _counting: AbortOnDropHandle<()>,
    /// Processes whose memory counts.
    ids: Arc<Mutex<Vec<u32>>>,
    seeder: PathBuf,
    bait: Option<Process>,
    taking: Option<JoinHandle<(Process, f64, String)>>,
    news: Option<News>,
    door: Option<Door>,
}

impl Victims {
    /// A third party listens.
    pub(super) fn new(third: TcpListener) -> Self {
        let count = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&count);
        let counting = tokio::spawn(async move {
            while third.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (ids, seeder) = (<_>::default(), PathBuf::new());
        let counting = AbortOnDropHandle::new(counting);
        let (bait, taking, news, door) = <_>::default();
        Self { third: count, _counting: counting, ids, seeder, bait, taking, news, door }
    }

    /// A reader that gets one file of `names` after the other, and one that will take the bait.
    pub(super) async fn readers(
        &mut self,
        arena: &mut Arena,
        names: Vec<String>,
        stop: CancellationToken,
    ) -> Result<JoinHandle<()>> {
        let start = arena.net.peers(0);
        let (reader, bait) = (start.start("reader").await?, start.start("bait").await?);
        let ids = Arc::clone(&self.ids);
        locked(&ids).extend([&reader, &bait].iter().filter_map(|one| one.id()));
        self.bait = Some(bait);
        let seeder = arena.peers.first().map(|peer| peer.dir.clone()).unwrap_or_default();
        self.seeder.clone_from(&seeder);
        let mut readers = Readers { start, reader, readers: 1, seeder, ids };
        let load = Arc::clone(&arena.load);
        Ok(tokio::spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) / GETS_PER_S);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // The large file is for others. Who has all files goes, and another comes.
            for (n, name) in names[1..].iter().cycle().enumerate() {
                if stop.run_until_cancelled(ticks.tick()).await.is_none() {
                    break;
                }
                if n > 0 && n % (names.len() - 1) == 0 {
                    readers.renew().await;
                }
                let began = Instant::now();
                let found = readers.get(name).await;
                load.note(Kind::Found, began, (found, Instant::now()));
            }
        }))
    }

    pub(super) async fn elder(arena: &mut Arena) -> Result<()> {
        let names: Vec<String> = (0..ELDER_NAMES).map(|n| format!("elder/file-{n}.bin")).collect();
        let targets = arena.register_all(0, &names).await?;
        targets.into_iter().step_by(ELDER_NAMES / ELDER_ASKED).for_each(|target| arena.load.add(target));
        Ok(())
    }

    /// Waits until an attack that has to come first is there.
    pub(super) async fn stands(&self, attack: Attack, arena: &Arena) {
        if !matches!(attack, Attack::Squat | Attack::SquatForged) {
            return;
        }
        let latest = Instant::now() + STANDS_WITHIN;
        let connections = || arena.net.nodes[0].of_process(|pid| machine::taken(pid, 0.0));
        while connections().is_some_and(|taken| taken.descriptors < count(SQUATTERS))
            && Instant::now() < latest
        {
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Does what honest nodes do while the attack goes on: come, publish, or take the bait.
    pub(super) async fn provoke(
        &mut self,
        attack: Attack,
        arena: &mut Arena,
        bait: &str,
        until: Instant,
    ) -> Result<()> {
        sleep_until(until.min(Instant::now() + PROVOKED_AFTER)).await;
        let target = match attack {
            Attack::Crowd => {
                let latecomer = arena.net.join().await?;
                Some(arena.register(latecomer, "latecomer/file.bin").await?)
            }
            Attack::Origins => Some(arena.register(0, bait).await?),
            _ => None,
        };
        match attack {
            Attack::Squat | Attack::SquatForged => {
                let targets = arena.register(0, bait).await?.among_many()?;
                targets.into_iter().for_each(|target| arena.load.add(target));
            }
            Attack::Ahead => self.news = Some(News::begin(arena, until).await?),
            Attack::Streams => self.door = arena.net.nodes[0].http.map(Door::begin),
            _ => {}
        }
        if let Some(target) = target {
            sleep_until(until.min(Instant::now() + LINKED_AFTER)).await;
            arena.load.add(target);
        }
        if let (Attack::Drip | Attack::Zeros, Some(mut reader)) = (attack, self.bait.take()) {
            let (load, names) = (Arc::clone(&arena.load), vec![bait.to_owned()]);
            self.taking = Some(tokio::spawn(async move {
                loop {
                    let request = Request::Download { names: names.clone(), at_s: 0.0 };
                    let said = match reader.call::<Downloads>(&request).await {
                        Ok(downloads) => downloads.failed.join("; "),
                        Err(error) => format!("{error:#}"),
                    };
                    if Instant::now() >= until || !said.contains("nobody shares") {
                        return (reader, load.now().as_secs_f64(), said);
                    }
                    sleep(Duration::from_millis(200)).await;
                }
            }));
        }
        Ok(())
    }

    /// The most memory that an honest node took.
    pub(super) fn peak_mib(&self, arena: &Arena) -> f64 {
        let nodes: Vec<u32> = arena.ids().into_iter().map(|(_, pid)| pid).collect();
        let readers = locked(&self.ids);
        nodes.iter().chain(&*readers).copied().filter_map(machine::peak_bytes).max().map_or(f64::NAN, mib)
    }

    /// Whether nobody is busy with the bait any more.
    pub(super) fn is_done(&self) -> bool {
        self.taking.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What is worth saying of them; `over_s`: when the attack ended.
    pub(super) async fn end(mut self, over_s: f64, judged: &mut Judged) -> Vec<String> {
        let mut notes = Vec::new();
        let third = self.third.load(Ordering::Relaxed);
        if third > 0 {
            notes.push(format!("{third} connections to a third party"));
        }
        // Who only asks connects to nobody.
        let gets = if self.seeder == PathBuf::new() { 0 } else { judged.asked() };
        if third > gets * UNPROVEN_MAX {
            judged.misses(format!("{third} connections to a third party"));
        }
        if let Some(news) = self.news.take() {
            let (published, lost) = news.end().await.unwrap_or((0, usize::MAX));
            notes.push(format!("{lost} of {published} newer versions were not told to their holder"));
            if lost > 0 {
                judged.misses(format!("{lost} of {published} invalidations lost"));
            }
        }
        if let Some(door) = self.door.take() {
            let (asked, failed, longest) = door.end().await.unwrap_or((0, usize::MAX, Duration::MAX));
            let ms = longest.as_millis();
            notes.push(format!(
                "{failed} of {asked} /healthz were not answered within 1 s, the others within {ms} ms"
            ));
            if failed > 0 {
                judged.misses(format!("{failed} of {asked} /healthz failed"));
            }
        }
        let Some(taking) = self.taking.take() else { return notes };
        let disk_mib = mib(disk_bytes(&self.seeder.with_file_name("bait")));
        notes.push(format!("{disk_mib:.0} MiB of disk for the bait"));
        if disk_mib > DISK_MIB {
            judged.misses(format!("disk {disk_mib:.0} MiB"));
        }
        if !taking.is_finished() {
            taking.abort();
            judged.misses("the get of the bait goes on".to_owned());
            return notes;
        }
        if let Ok((_reader, at_s, said)) = taking.await {
            let late_s = at_s - over_s;
            notes.push(format!("the get of the bait ended {late_s:+.1} s from the attack's end: {said}"));
            if late_s > RECOVERED_WITHIN.as_secs_f64() {
                judged.misses("the get of the bait ended too late".to_owned());
            }
        }
        notes
    }
}

/// A reader, and the next one when it hangs.
struct Readers {
    start: Peers,
    reader: Process,
    readers: usize,
    seeder: PathBuf,
    ids: Arc<Mutex<Vec<u32>>>,
}

impl Readers {
    async fn get(&mut self, name: &str) -> Found {
        match timeout(GET_WITHIN, arena::get(&mut self.reader, &self.seeder, name)).await {
            Ok(Ok(())) => Found::Right,
            Ok(Err(error)) if error.to_string() == arena::WRONG => Found::Wrong,
            Ok(Err(error)) => {
                note(&format!("a get failed: {error:#}"));
                Found::Failed
            }
            Err(_) => {
                self.renew().await;
                Found::Failed
            }
        }
    }

    /// Another reader goes on; this one is ended.
    async fn renew(&mut self) {
        self.readers += 1;
        if let Ok(another) = self.start.start(&format!("reader-{}", self.readers)).await {
            locked(&self.ids).extend(another.id());
            self.reader = another;
        }
    }
}

fn disk_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(known) if known.is_dir() => disk_bytes(&entry.path()),
        Ok(known) => known.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(of).sum()
}

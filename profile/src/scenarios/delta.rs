//! Updates: how much of a file moves when it changes, how long that takes at a rate, and what either end takes; beside
//! rsync and zstd where they are installed. Every file that arrives is held against what was published.

mod kinds;

use self::kinds::{KINDS, VersionPair};
use crate::report::units;
use crate::scenarios::prelude::*;

const NAME: &str = "data";
/// A base is kept in the background: as long as that may take.
const BASE_WITHIN: Duration = Duration::from_secs(60);
/// Goals: the more of these shares of what rsync -z moves, and of a patch that zstd makes with both files in memory: where
/// nearly all that changed is new, no program moves half of what rsync -z does.
const OF_RSYNC_MAX: f64 = 0.5;
const OF_PATCH_MAX: f64 = 1.2;
const COLUMNS: &str = "scenario size_mib rate first_get_percent first_get_s moved_percent took_s sender_cpu_s reader_cpu_s \
                       peak_mib_sender peak_mib_receiver rsync_percent rsync_z_percent patch_3_percent";

/// Updates of files.
///
/// Without pairs the kinds are made: a table of numbers, a log, a disk image, sources, and where `sqlite3` is installed a
/// database. The goal is half of what rsync -z moves, or 1.2 times a patch by zstd -3 if that is more.
#[derive(Clone, Debug, Args)]
pub(crate) struct Delta {
    /// Pairs of files: OLD NEW, and so on
    #[arg(value_name = "OLD NEW")]
    pairs: Vec<PathBuf>,
    /// Bytes of each file that is made
    #[arg(long, value_name = "BYTES", default_value = "32MiB", value_parser = units::bytes)]
    size: u64,
    /// What the origin sends a second at most, in Mbit, a row for each; 0: no limit
    #[arg(long, value_name = "MBIT", value_delimiter = ',', default_value = "0,100,20")]
    rates: Vec<u64>,
    /// All goals in one run: what is aimed at, what was measured, reached or missed; without limits alone
    #[arg(long, conflicts_with = "rates")]
    goals: bool,
    /// Decides what is in the files that are made
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the files go, in a folder that is removed at the end [default: in memory if the system has such a
    /// place, as /dev/shm]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Scenario for Delta {
    type How = Connecting;
    type Target = Drawn;

    fn check(&self, _: &Connecting) -> Result<()> {
        ensure!(self.pairs.len().is_multiple_of(2), "pairs are OLD NEW: one file has no other");
        self.pairs.iter().try_for_each(|path| {
            ensure!(path.is_file(), "{} is no file", path.display());
            Ok(())
        })
    }

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let folder = Folder::prepare(self.dir.as_deref()).or_cannot_begin()?;
        folder.has_room(16 * self.size).or_cannot_begin()?;
        let (on, watch) = (on.within(&folder), &on.watch);
        let (mut rows, mut ended) = (Vec::new(), None);
        let count = if self.pairs.is_empty() { KINDS.len() } else { self.pairs.len() / 2 };
        let _progress = Progress::begin("updates", count * self.rates().len(), watch);
        for n in 0..count {
            let measured = watch.unless_stopped(self.pair(n, &on, &mut rows)).await;
            if let Err(fault) = measured {
                ended = (!watch.is_stopped()).then(|| format!("{fault:#}"));
                break;
            }
        }
        let report = self.report(rows, &on);
        Ok(report.ended(watch.is_stopped(), "Interrupted: rows are missing.", ended.as_ref()))
    }
}

impl Delta {
    fn rates(&self) -> &[u64] {
        if self.goals { &[0] } else { &self.rates }
    }

    async fn pair(&self, n: usize, on: &Deployment, rows: &mut Vec<Row>) -> Result<()> {
        let folder = on.folder.join("pair");
        fs::create_dir_all(&folder)?;
        let given = self.pairs.get(2 * n..2 * n + 2).map(<[PathBuf]>::to_vec);
        let (size, seed, at) = (self.size, self.seed, folder.clone());
        let pair = apart(move || match given {
            Some(given) => VersionPair::of(&given[0], &given[1]),
            None => KINDS[n].1(KINDS[n].0, &at, size, seed),
        });
        let Some(pair) = pair.await? else { return Ok(()) }; // what makes it is not installed
        let others = compared(&pair, &folder).await?;
        for rate in self.rates().iter().take_while(|_| !on.watch.is_stopped()) {
            let row = update(&pair, *rate, on).await.with_context(|| pair.name.clone())?;
            rows.push(others.iter().fold(row, |row, (key, percent)| row.with(key, *percent)));
            on.watch.add_done(1);
        }
        Ok(fs::remove_dir_all(folder)?)
    }

    fn report(&self, rows: Vec<Row>, on: &Deployment) -> Report {
        let first = |row: &&Row| row.0["mbit"] == json!(self.rates().first());
        let goal = |row: &Row| {
            let bound =
                (row.get("rsync_z_percent") * OF_RSYNC_MAX).max(row.get("patch_3_percent") * OF_PATCH_MAX);
            let what = format!("{}: % of the file that moves", row.text("scenario"));
            Goal::new(what, Bound::AtMost(bound), row.get("moved_percent"), "profile delta")
        };
        let has_bound = |row: &&Row| row.get("rsync_z_percent").is_finite();
        let goals: Vec<Goal> = rows.iter().filter(first).filter(has_bound).map(goal).collect();
        let shown: Vec<Row> = rows.iter().filter(first).cloned().collect();
        let names = shown.iter().enumerate().map(|(n, row)| format!("{} {}", n + 1, row.text("scenario")));
        let keys = [
            ("moved_percent", "nekop2p"),
            ("rsync_z_percent", "rsync -z"),
            ("patch_3_percent", "zstd --patch-from -3"),
        ];
        let charts = vec![bars("file", "% of the new file", &shown, &keys)];
        let (title, names) =
            ("How much of a file moves when it changes", names.collect::<Vec<_>>().join(", "));
        Report {
            kind: Some("delta"),
            head: format!("One origin that keeps a base, one reader that has the version before, {}.", on.in_words()),
            sections: vec![Section::new("", COLUMNS, rows), goals::section(&goals)],
            foot: vec![
                "First: of the version before, from nothing. Moved: the bytes of data replies; requests, manifests and TLS are \
                 some 0.1 % of a file more. rsync and zstd: through a pipe and to a file, on this machine. Every file was compared \
                 with its origin's."
                    .to_owned(),
            ],
            facts: Row::default().with("seed", self.seed),
            pictures: vec![Picture::new("delta", title, names, charts)],
            ..Report::default()
        }
    }
}

/// What others move of a pair, in percent of the new file, by the key of a column.
async fn compared(pair: &VersionPair, folder: &Path) -> Result<Vec<(&'static str, f64)>> {
    let (pair, folder) = (pair.clone(), folder.to_owned());
    let all = move || {
        let whole = fs::metadata(&pair.new)?.len();
        let moved = |(key, moved): (_, MovedBytes)| Some((key, moved(&pair.old, &pair.new, &folder)?));
        let moved = COMPARED_TOOLS.into_iter().filter_map(moved);
        Ok(moved.map(|(key, moved)| (key, percent(moved, whole))).collect())
    };
    apart(all).await
}

fn percent(moved: u64, of: u64) -> f64 {
    bytes(moved) / bytes(of.max(1)) * 100.0
}

/// A reader gets the old version, the origin publishes the new one, and the reader gets that: one row.
async fn update(pair: &VersionPair, mbit: u64, on: &Deployment) -> Result<Row> {
    let net = Net::single(on).await?;
    let peers = net.peers(0);
    let cap_up = NonZeroU64::new(mbit * 1_000_000 / 8);
    let capped = PeerOptions { cap_up, ..peers.options("origin") };
    let mut origin = on.process("origin", Role::Peer(capped)).await?;
    let mut reader = peers.start("reader").await?;
    let (old, new) = (fs::metadata(&pair.old)?.len(), fs::metadata(&pair.new)?.len());
    let (first, first_s) = publish_and_get(&mut origin, &mut reader, &pair.old).await?;
    based(&origin, old).await?;
    for node in [&mut origin, &mut reader] {
        node.call::<()>(&Request::Reset).await?;
    }
    let (moved, took_s) = publish_and_get(&mut origin, &mut reader, &pair.new).await?;
    let mut row = Row::named(pair.name.clone()).and(Row::of(json!({
        "mbit": mbit, "size_mib": mib(new), "rate": if mbit == 0 { "no limit".to_owned() } else { format!("{mbit} Mbit/s") },
        "first_get_percent": percent(first, old), "first_get_s": first_s, "moved_percent": percent(moved, new), "took_s": took_s,
    })));
    for (node, cpu, peak) in
        [(&mut origin, "sender_cpu_s", "peak_mib_sender"), (&mut reader, "reader_cpu_s", "peak_mib_receiver")]
    {
        let usage: Usage = node.call(&Request::Usage).await?;
        row = row.with(cpu, usage.cpu_s).with(peak, usage.peak_bytes.map(mib));
        let dir = node.dir.clone();
        node.end().await?;
        apart(move || Ok(fs::remove_dir_all(dir)?)).await?;
    }
    net.stop().await;
    Ok(row)
}

/// The bytes that moved, and the seconds from the question on.
async fn publish_and_get(origin: &mut Process, reader: &mut Process, file: &Path) -> Result<(u64, f64)> {
    let (from, to, at) = (file.to_owned(), origin.dir.join(NAME), origin.dir.join("next"));
    let put = to.clone();
    let hash = apart(move || {
        fs::copy(&from, &at)?;
        fs::rename(&at, &put)?; // as who builds a file anew does
        Ok(files::hash(&put)?)
    });
    let hash = hash.await?;
    let _: (usize, f64) = origin.call(&Request::Publish(to)).await?;
    let began_s = now_s();
    let got: Downloads =
        reader.call(&Request::Download { names: vec![NAME.to_owned()], at_s: began_s }).await?;
    ensure!(got.failed.is_empty(), "{}", got.failed.join("; "));
    let arrived = reader.dir.join(NAME);
    ensure!(apart(move || Ok(files::is_right(&arrived, &hash)?)).await?, "another file arrived");
    Ok((got.sources.iter().map(|sent| sent.bytes).sum(), got.ended_s - began_s))
}

/// Waits until the origin keeps all of what it published.
async fn based(origin: &Process, len: u64) -> Result<()> {
    let kept = origin.dir.join(".neko/kept");
    until(BASE_WITHIN, async || {
        let found = fs::read_dir(&kept).into_iter().flatten().flatten();
        let is_whole = found.filter_map(|file| file.metadata().ok()).any(|found| found.len() == len);
        Ok((!is_whole).then(|| "the origin keeps no base".to_owned()))
    })
    .await
}

/// The bytes that another program moves from one file to the next, in a folder for what it makes; `None` where it is not
/// installed.
type MovedBytes = fn(&Path, &Path, &Path) -> Option<u64>;

/// By the key of a column.
const COMPARED_TOOLS: [(&str, MovedBytes); 3] = [
    ("rsync_percent", |old, new, folder| rsync(&[], old, new, folder)),
    ("rsync_z_percent", |old, new, folder| rsync(&["-z"], old, new, folder)),
    ("patch_3_percent", patch),
];

/// Bytes both ways through its pipe.
fn rsync(flags: &[&str], old: &Path, new: &Path, folder: &Path) -> Option<u64> {
    let copy = folder.join("copy");
    fs::copy(old, &copy).ok()?;
    let mut command = Command::new("rsync");
    command.args(["--no-whole-file", "--ignore-times", "--stats"]).args(flags).arg(new).arg(&copy);
    let said = String::from_utf8(command.output().ok()?.stdout).ok()?;
    let after = |words: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(words))?;
        line.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u64>().ok()
    };
    Some(after("Total bytes sent:")? + after("Total bytes received:")?)
}

/// Bytes of a patch, made with all of both files in memory.
fn patch(old: &Path, new: &Path, folder: &Path) -> Option<u64> {
    let patch = folder.join("patch");
    let mut command = Command::new("zstd");
    command.args(["-q", "-f", "-3", "--long=31", "--patch-from"]).arg(old).arg(new).arg("-o").arg(&patch);
    command.status().ok().filter(std::process::ExitStatus::success)?;
    Some(fs::metadata(&patch).ok()?.len())
}

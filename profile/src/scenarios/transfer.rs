//! Files from peer to peer: how fast beside a plain copy of the same bytes, what it takes of processor
//! and memory, who sends how much. Every node is a process of its own, and every file that arrives is
//! held against what was published.

pub mod case;
pub mod figures;
pub mod floor;
pub mod goals;
mod round;
mod stage;

use self::case::{Case, What};
use self::{figures::Rounds, stage::Stage};
use crate::run::{files::Bulk, files::Change, files::How};
use crate::scenarios::prelude::*;
use crate::{cluster::deployment::security, report::units};

/// Files from peer to peer.
///
/// Bytes are given as 4096, 64MiB, 1GiB (units of 1024) or 50MB (units of 1000). Every node is a process of
/// its own; every file that arrives is held against the one that was shared.
#[derive(Args)]
pub(crate) struct Transfer {
    /// Bytes of the file; several, separated by commas, are measured one after the other
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1GiB", value_parser = units::bytes)]
    size: Vec<u64>,
    #[command(flatten)]
    case: Case,
    /// Plain TCP instead of TLS
    #[arg(long)]
    insecure: bool,
    /// Many small files instead of a large one: how many are shared, and fetched
    #[arg(long, value_name = "N", conflicts_with_all = ["change", "share", "sparse"])]
    files: Option<usize>,
    /// The least and the most bytes of a small file
    #[arg(long, value_name = "MIN-MAX", default_value = "1KiB-10KiB", value_parser = units::range)]
    file_bytes: (u64, u64),
    /// The file is fetched, changes by this much, in percent, and is fetched again: how much moves
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, conflicts_with_all = ["share", "sparse"])]
    change: Option<f64>,
    /// At how many places it changes
    #[arg(long, value_name = "N", default_value_t = 20, requires = "change")]
    places: u64,
    /// How it changes
    #[arg(long, default_value = "in-place", requires = "change")]
    how: How,
    /// The file is only shared, and nobody fetches it
    #[arg(long, conflicts_with_all = ["readers", "sources", "corrupt"])]
    share: bool,
    /// The file is a hole but for 64 KiB at either end
    #[arg(long)]
    sparse: bool,
    /// All goals in one run: what is aimed at, what was measured, reached or missed
    #[arg(long, conflicts_with_all = ["sources", "readers", "insecure", "cap_up", "cap_down", "corrupt", "change",
          "share", "sparse", "csv", "plot"])]
    goals: bool,
    /// Where the files go, in a folder that is removed at the end [default: in memory if the system has such a
    /// place, as /dev/shm]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Transfer {
    fn cases(&self) -> Vec<Case> {
        if self.goals {
            return goals::cases(&self.aimed_at());
        }
        let base = Case { security: security(self.insecure), ..self.case.clone() };
        if let Some(count) = self.files {
            return vec![Case { what: What::Files { count, bytes: self.file_bytes }, ..base }];
        }
        let what = |size: u64| {
            let bulk = Bulk { size, sparse: self.sparse };
            match self.change {
                Some(percent) => What::Change(bulk, Change { percent, places: self.places, how: self.how }),
                None if self.share => What::Publish(bulk),
                None => What::Whole(bulk),
            }
        };
        self.size.iter().map(|size| Case { what: what(*size), ..base.clone() }).collect()
    }

    /// What is measured for the goals: a large file, and small ones.
    fn aimed_at(&self) -> [Case; 2] {
        let Case { rounds, seed, .. } = self.case;
        let whole = Case { rounds, seed, ..Case::whole(self.size.first().copied().unwrap_or(1)) };
        let what = What::Files { count: self.files.unwrap_or(goals::FILES), bytes: self.file_bytes };
        [whole.clone(), Case { what, ..whole }]
    }
}

impl Scenario for Transfer {
    type How = ();
    type Target = Detailed;

    fn check(&self, (): &()) -> Result<()> {
        self.cases().iter().try_for_each(Case::check)
    }

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let folder = Folder::prepare(self.dir.as_deref()).or_cannot_begin()?;
        let cases = self.cases();
        folder.has_room(cases.iter().map(Case::disk_bytes).max().unwrap_or(0)).or_cannot_begin()?;
        let connecting = Connecting { insecure: self.insecure, threads: THREADS_DEFAULT };
        let work = async |on: Deployment| {
            let (on, place) = (on.within(&folder), folder.in_words());
            if self.goals {
                return Ok(goals::run(&self.aimed_at(), &place, &on).await);
            }
            let mut rows = Vec::new();
            for case in cases.iter().take_while(|_| !on.watch.is_stopped()) {
                rows.push(measure(case, &on).await?);
            }
            Ok(figures::report(rows, &place, on.watch.is_stopped()))
        };
        Setup::apart(connecting).on_threads(&on.watch, work)
    }
}

/// Measures one case; fewer rounds of it when stopped. If that fails, nothing is left running.
pub(crate) async fn measure(case: &Case, deployment: &Deployment) -> Result<Rounds, Fault> {
    let watch = &deployment.watch;
    let _progress = Progress::begin(&case.name(), case.rounds, watch);
    let mut row = Rounds { case: case.clone(), rounds: Vec::new() };
    let started = watch.unless_stopped(Stage::start(case, deployment)).await;
    let started = started.with_context(|| format!("the nodes of '{}' did not start", case.name()));
    let mut stage = started.or_cannot_begin()?;
    for n in 0..case.rounds {
        match watch.unless_stopped(round::run(&mut stage, n)).await {
            Ok(round) => row.rounds.push(round),
            Err(_) if watch.is_stopped() => return Ok(row),
            Err(error) => return Err(Fault::Run(error.context(case.name()))),
        }
        watch.add_done(1);
    }
    stage.stop().await?;
    Ok(row)
}

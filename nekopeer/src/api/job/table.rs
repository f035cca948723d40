//! [`Table`]: which jobs run, and which ended lately. Only values; nothing waits here.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use nekoproto::{FileName, clock::unix_ms};
use tokio_util::sync::CancellationToken;

use super::row::{JobKind, JobRow, JobState, bounded, called};
use crate::{
    api::{Failure, FailureKind, Snapshot},
    util::progress::Progress,
};

const ENDED_KEPT_MAX: usize = 256;
const ENDED_KEPT_FOR: Duration = Duration::from_secs(3600);
/// Names of one job that are kept, to say that one of them is not a job of its own.
const NAMES_KEPT_MAX: usize = 1000;

/// Names that are being written, and how far that is; `None`: they wait for their turn.
pub(super) type NamesInWork = Vec<(FileName, Option<Arc<Progress>>)>;
const WHY_WAITING: &str = "as many copies are being downloaded as may be at once";

/// Invariants:
/// - an id is used once;
/// - a job is in exactly one of `running` and `ended`;
/// - `ended` is in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct Table {
    last_id: u64,
    running: BTreeMap<u64, Arc<Running>>,
    ended: VecDeque<JobRow>,
    /// Files that the peer writes by itself, as far as somebody asked.
    written: HashMap<FileName, Written>,
}

#[derive(Debug)]
pub(super) struct Running {
    /// As it began.
    pub(super) row: JobRow,
    names: Vec<FileName>,
    pub(super) progress: Arc<Progress>,
    pub(super) cancelled: CancellationToken,
    pub(super) ended: CancellationToken,
}

#[derive(Debug)]
struct Written {
    id: u64,
    progress: Weak<Progress>,
    started_ms: u64,
}

#[derive(Debug)]
pub(super) enum Found {
    Command(Arc<Running>),
    /// The peer writes this file by itself.
    Writing(JobRow, FileName),
}

impl Running {
    pub(super) fn row(&self) -> JobRow {
        let (now, why) = (Snapshot::of(&self.progress), self.progress.waiting_for());
        JobRow { now, why, ..self.row.clone() }
    }
}

impl Table {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn begin(
        &mut self,
        kind: JobKind,
        names: &[FileName],
        title: String,
        is_background: bool,
    ) -> Arc<Running> {
        let id = self.next_id();
        let row = JobRow::new(id, kind, called(names, title), is_background);
        let names = names[..names.len().min(NAMES_KEPT_MAX)].to_vec();
        let [cancelled, ended] = [CancellationToken::new(), CancellationToken::new()];
        let running = Arc::new(Running { row, names, progress: Arc::default(), cancelled, ended });
        self.running.insert(id, Arc::clone(&running));
        running
    }

    pub(super) fn end(&mut self, id: u64, state: JobState, why: Option<Failure>) -> Option<JobRow> {
        let running = self.running.remove(&id)?;
        let (error, remedy) = why.map(|why| (bounded(why.message), why.remedy)).unzip();
        let (remedy, ended_ms) = (remedy.flatten(), Some(unix_ms()));
        let row = JobRow { state, error, remedy, ended_ms, why: None, ..running.row() };
        self.ended.push_back(row.clone());
        self.prune();
        Some(row)
    }

    fn prune(&mut self) {
        let since = unix_ms().saturating_sub(u64::try_from(ENDED_KEPT_FOR.as_millis()).unwrap_or(u64::MAX));
        let is_old = |row: &JobRow| row.ended_ms.is_some_and(|ended| ended < since);
        while self.ended.len() > ENDED_KEPT_MAX || self.ended.front().is_some_and(is_old) {
            self.ended.pop_front();
        }
    }

    /// Whether a job in the background failed, of those that are still listed.
    pub(super) fn has_failed_in_background(&self) -> bool {
        self.ended.iter().any(|row| row.background && row.state == JobState::Failed)
    }

    pub(super) fn ended(&self, id: u64) -> Option<JobRow> {
        self.ended.iter().find(|row| row.id == id).cloned()
    }

    pub(super) fn rows(&mut self, writing: NamesInWork) -> Vec<JobRow> {
        self.prune();
        let of_command = |running: &Arc<Running>| match running.row.kind {
            // What is brought to followed names is theirs, too.
            JobKind::Follow => {
                let is_theirs = |(name, _): &&(FileName, _)| running.names.contains(name);
                let parts = writing.iter().filter(is_theirs).filter_map(|(_, part)| part.as_deref());
                let now = parts.map(Snapshot::of).reduce(Snapshot::plus);
                JobRow { now: now.unwrap_or_default(), ..running.row() }
            }
            _ => running.row(),
        };
        let mut rows: Vec<_> = self.running.values().map(of_command).collect();
        rows.extend(self.written(writing));
        rows.sort_unstable_by_key(|row| row.id);
        rows.extend(self.ended.iter().rev().cloned());
        rows
    }

    fn written(&mut self, writing: NamesInWork) -> Vec<JobRow> {
        let is_of_command =
            |progress: &Arc<Progress>| self.running.values().any(|job| Arc::ptr_eq(&job.progress, progress));
        let own: NamesInWork =
            writing.into_iter().filter(|(_, it)| !it.as_ref().is_some_and(is_of_command)).collect();
        let mut known = std::mem::take(&mut self.written);
        let mut rows = Vec::with_capacity(own.len());
        for (name, progress) in own {
            let of = progress.as_ref().map(Arc::downgrade).unwrap_or_default(); // all that wait have the same
            let (id, started_ms) = match known.remove(&name).filter(|it| it.progress.ptr_eq(&of)) {
                Some(written) => (written.id, written.started_ms),
                None => (self.next_id(), unix_ms()),
            };
            let now = progress.as_deref().map(Snapshot::of).unwrap_or_default();
            let (state, why) = match progress {
                Some(_) => (JobState::Running, None),
                None => (JobState::Waiting, Some(WHY_WAITING.to_owned())),
            };
            let row = JobRow::new(id, JobKind::Refetch, name.to_string(), true);
            rows.push(JobRow { now, state, started_ms, why, ..row });
            self.written.insert(name, Written { id, progress: of, started_ms });
        }
        rows
    }

    /// The jobs that `what` means: the one with this id, otherwise those about this name alone.
    pub(super) fn find(&mut self, what: &str, writing: NamesInWork) -> Result<Vec<(u64, Found)>, Failure> {
        let id = what.parse().ok();
        let of_peer = self.written(writing).into_iter().filter_map(|row| {
            let name = FileName::new(&row.name).ok().filter(|_| row.state == JobState::Running)?;
            Some((row.name == what, (row.id, Found::Writing(row, name))))
        });
        let of_commands = self.running.values().map(|running| {
            let is_named = match running.names.as_slice() {
                [name] => name.as_str() == what,
                [] => running.row.name == what,
                _ => false,
            };
            (is_named, (running.row.id, Found::Command(Arc::clone(running))))
        });
        let mut found: Vec<_> = of_peer.chain(of_commands).collect();
        let is_id = |found: &(u64, Found)| Some(found.0) == id;
        let by_id = found.iter().any(|(_, found)| is_id(found));
        found.retain(|(is_named, found)| if by_id { is_id(found) } else { *is_named });
        let found: Vec<_> = found.into_iter().map(|(_, found)| found).collect();
        if found.is_empty() { Err(self.not_found(what, id)) } else { Ok(found) }
    }

    fn not_found(&self, what: &str, id: Option<u64>) -> Failure {
        let ended = id.and_then(|id| self.ended(id));
        let wider = self.running.values().find(|job| job.names.iter().any(|name| name.as_str() == what));
        let (kind, message) = match (ended, wider) {
            (Some(row), _) => (FailureKind::NotFound, format!("job {what} has ended: {}", row.state)),
            (None, Some(job)) => {
                let (id, name) = (job.row.id, &job.row.name);
                (FailureKind::Conflict, format!("{what} is a part of job {id} ({name}): cancel {id} ends it"))
            }
            (None, None) => {
                (FailureKind::NotFound, format!("no job runs under {what}: jobs lists those that run"))
            }
        };
        Failure::with(kind, message)
    }
}

#[cfg(test)]
mod tests {
    use testkit::values::name;

    use super::*;

    fn begin(table: &mut Table, names: &[&str]) -> (u64, Arc<Progress>) {
        let names: Vec<_> = names.iter().map(|text| name(text)).collect();
        let running = table.begin(JobKind::Get, &names, String::new(), false);
        (running.row.id, Arc::clone(&running.progress))
    }

    #[test]
    fn ended_jobs_are_listed_up_to_a_bound_the_last_first() {
        let mut table = Table::default();
        for _ in 0..ENDED_KEPT_MAX + 5 {
            let (id, _) = begin(&mut table, &["a"]);
            table.end(id, JobState::Done, None).unwrap();
        }
        let (runs, _) = begin(&mut table, &["b"]);
        let ids: Vec<u64> = table.rows(Vec::new()).iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), ENDED_KEPT_MAX + 1);
        assert_eq!((ids[0], ids[1]), (runs, runs - 1));
    }

    #[test]
    fn follower_is_as_far_as_what_is_brought_to_its_names() {
        let (mut table, followed) = (Table::default(), [name("a"), name("b")]);
        let id = table.begin(JobKind::Follow, &followed, String::new(), false).row.id;
        let part = |text: &str, done| {
            let progress = Progress::default();
            progress.set_total(10);
            progress.add_done(done);
            (name(text), Some(Arc::new(progress)))
        };
        let mut of_follower = |writing| table.rows(writing).into_iter().find(|row| row.id == id).unwrap().now;
        let now = of_follower(vec![part("a", 1), part("b", 2), part("other", 4), (name("b"), None)]);
        assert_eq!(now, Snapshot { done: 3, kept: 0, total: 20 });
        assert_eq!(of_follower(Vec::new()), Snapshot::default());
    }

    #[test]
    fn job_is_meant_by_its_id_or_by_its_only_name() {
        let mut table = Table::default();
        let (one, _) = begin(&mut table, &["a"]);
        let (many, _) = begin(&mut table, &["b", "c"]);
        let meant = |table: &mut Table, what: &str| {
            let found = table.find(what, Vec::new());
            found.map(|found| found.iter().map(|found| found.0).collect::<Vec<_>>())
        };
        assert_eq!(meant(&mut table, "a").unwrap(), [one]);
        assert_eq!(meant(&mut table, &many.to_string()).unwrap(), [many]);
        let part = meant(&mut table, "b").unwrap_err();
        assert!(part.kind == FailureKind::Conflict && part.message.contains("job 2"), "{part}");
        assert_eq!(meant(&mut table, "z").unwrap_err().kind, FailureKind::NotFound);
        table.end(one, JobState::Done, None).unwrap();
        assert!(meant(&mut table, "1").unwrap_err().message.contains("has ended: done"));
    }

    #[test]
    fn file_that_the_peer_writes_by_itself_is_a_job_with_one_id_and_that_of_a_command_is_none() {
        let mut table = Table::default();
        let (_, progress) = begin(&mut table, &["a"]);
        let own: Arc<Progress> = Arc::default();
        let running = |text, progress| (name(text), Some(Arc::clone(progress)));
        let writing = || vec![running("a", &progress), running("own", &own), (name("late"), None)];
        let first = table.rows(writing());
        let shown: Vec<_> = first.iter().map(|row| (row.kind, row.state, row.why.is_some())).collect();
        let (kinds, runs, waits) = ([JobKind::Get, JobKind::Refetch], JobState::Running, JobState::Waiting);
        assert_eq!(shown, [(kinds[0], runs, false), (kinds[1], runs, false), (kinds[1], waits, true)]);
        assert!(table.find("late", writing()).is_err(), "it does not run");
        assert_eq!(table.rows(writing()), first);
        assert!(matches!(table.find("own", writing()).unwrap()[0].1, Found::Writing(..)));
        // A file that is called like an id does not end with the job of that id.
        let numbered = vec![running("1", &own)];
        let found = table.find("1", numbered).unwrap();
        assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), [1]);
        drop((own, found));
        assert_eq!(table.rows(Vec::new()).len(), 1);
        assert!(table.written.is_empty());
    }
}

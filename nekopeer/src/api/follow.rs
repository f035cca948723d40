//! `follow`: keeps the newest version of names in place, and runs a command on each.

use std::{collections::HashSet, path::absolute, time::Duration};

use anyhow::Context;
use nekoproto::{Remedy, limits::TTL_DEFAULT};
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    LocalPath, Reply, Snapshot, Wanted, Word,
    downloading::{prefer, remember},
    job::JobKind,
    named::{
        self, Pattern,
        expanding::{Among, matching},
        id_digits, tickets,
    },
    pass_events,
    prelude::*,
};
use crate::{
    follow::{FOLLOWED_FILES_MAX, FOLLOWED_MAX, Follower, Hook, KEEP_MAX, NewNames, PRINTED_WAITING_MAX},
    indexers::via::Via,
    library::events::Event,
    peer::PeerHandle,
    state::freshness::OnStale,
    storage::catalogue::{Preference, PreferenceChange},
    terminal::units,
};

/// Time limit of the command of `follow`, in seconds: what is usual, and a day.
const EXEC_SECS_DEFAULT: u32 = 600;
const EXEC_SECS_MAX: u32 = 24 * 60 * 60;
/// Time after which the user is told that it runs.
const EXEC_TOLD_AFTER: Duration = Duration::from_secs(1);
/// Interval between two searches for files that are new in a folder that is followed.
const SEARCH_EVERY: Duration = Duration::from_secs(10);
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Keep the newest version of names in place, and keep serving, until Ctrl-C
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Follow {
    /// Their names; FOLDER/ or a glob for all that match, also those that are shared later; or tickets that `share` printed
    /// elsewhere. NAME@ID, with 10 to 64 digits of an id, is the file of that origin. What nobody shares yet is waited for
    #[arg(required = true, value_name = "NAME", value_parser = Word::said)]
    names: Vec<Word>,
    /// Run this by /bin/sh on each new version, with NEKO_NAME, NEKO_VERSION, NEKO_PATH and NEKO_PREVIOUS_VERSION; if
    /// it fails, the version that it accepted before is put back, and the next one is waited for
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Kill the command after so many seconds, which counts as a failure
    #[arg(long, value_name = "SECS", default_value_t = EXEC_SECS_DEFAULT, requires = "exec",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(EXEC_SECS_MAX)))]
    exec_timeout: u32,
    /// Where the command runs
    #[arg(skip)]
    folder: LocalPath,
    /// Keep the last N versions that were replaced, for rollback [default: as many as before, with --exec at least 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(KEEP_MAX)))]
    keep: Option<u32>,
    /// Of them, keep no more than take so many bytes together: the oldest goes first, but for one that a command accepted
    #[arg(long, value_name = "SIZE", requires = "keep", value_parser = units::bytes)]
    keep_max: Option<u64>,
    /// Hops the query may travel beyond the own indexer
    #[arg(long, value_name = "N", default_value_t = TTL_DEFAULT, value_parser = said::ttl())]
    ttl: u8,
    /// Whose file, where several origins share the name: the first digits of its id; `@` is then part of each name
    #[arg(long, value_name = "ID", value_parser = id_digits)]
    origin: Option<String>,
    /// Replace a file that stands there and is no copy from here; fetch a file larger than the free disk
    #[arg(long)]
    force: bool,
    /// Seconds that the copies count as fresh at most, from now on; their origins may be stricter
    #[arg(long, value_name = "SECS", value_parser = said::seconds())]
    bound: Option<u32>,
    /// What happens to the copies when a newer version is out, from now on and whatever --on-stale says of all
    #[arg(long, value_name = "WHAT")]
    when_stale: Option<OnStale>,
    /// Take back what --bound and --when-stale said of these names before
    #[arg(long)]
    no_preference: bool,
}

impl Follow {
    fn wanted(&self) -> Result<(Vec<FileName>, Wanted), String> {
        Wanted::of_words(&self.names, self.origin.clone(), self.ttl)
    }
}

impl Api for Follow {
    /// Answers with [`Reply::Event`](super::Reply::Event) about the names, until the caller leaves.
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let peer = &host.peer;
        let (mut names, mut wanted) = self.wanted().map_err(Failure::conflict)?;
        let hook = self.exec.map(|command| Hook {
            command,
            folder: self.folder.0,
            time: Duration::from_secs(self.exec_timeout.into()),
        });
        let said = Preference { bound_secs: self.bound, on_stale: self.when_stale };
        let change = PreferenceChange { anew: self.no_preference, said };
        let via = tickets::connect(peer, &wanted, answer).await?;
        take_folders(peer, &mut names, (&mut wanted, &via)).await?;
        prefer(peer, &names, change).await?;
        remember(peer, &via).await;
        let patterns = std::mem::take(&mut wanted.patterns);
        let texts: Vec<&str> = patterns.iter().map(|pattern| pattern.text.as_str()).collect();
        let job = host.jobs.begin(JobKind::Follow, &names, texts.join(" "), false);
        let (events, endless) = (peer.events(), CancellationToken::new());
        for away in peer.indexers.away() {
            answer.send(Reply::Event(away)).await?; // it was told before this command
        }
        let (printed, lines) = mpsc::channel(PRINTED_WAITING_MAX);
        let options = named::options(&wanted, &via, self.force);
        let (reconciler, keep, keep_max) = (Arc::clone(&peer.reconciler), self.keep, self.keep_max);
        let following = Follower { reconciler, hook, printed, keep, keep_max, options };
        let followed = Mutex::new(names.iter().cloned().collect::<HashSet<_>>());
        let is_about = |event: &Event| event.name().is_none_or(|about| followed.lock().contains(about));
        let is_wanted = |event: &Event| event.is_worth_showing() && is_about(event);
        let (batches, later) = mpsc::channel(1);
        let is_alone = names.len() == 1 && patterns.is_empty();
        let among = Among::Network(wanted.ttl_hops, &via);
        let folders: Vec<Pattern> = names.iter().map(|name| Word::Name(name.clone()).pattern()).collect();
        let (patterns, folders) = (&patterns, &folders);
        let new_files = NewFiles { patterns, folders, among, change, followed: &followed, batches };
        let following = async {
            tokio::select! {
                Err(error) = following.follow(names, is_alone, later) => Err(error),
                Err(error) = new_files.find(peer, answer) => Err(error),
                () = pass_events(is_wanted, events, Some(lines), answer, &endless) => Ok(()),
            }
        };
        let in_work = || {
            let followed = followed.lock();
            let parts = followed.iter().filter_map(|name| Some((name.clone(), peer.library.in_use(name)?)));
            let parts: Vec<_> = parts.collect();
            let runs_long = |name: &&FileName| {
                peer.library.hook_runs_for(name).is_some_and(|runs_for| runs_for >= EXEC_TOLD_AFTER)
            };
            let waits_for = parts.iter().find_map(|(_, part)| part.waiting_for()).or_else(|| {
                followed.iter().find(runs_long).map(|name| format!("note: the command runs on {name}"))
            });
            (Snapshot::default(), waits_for, parts)
        };
        let following = answer.reporting_of(in_work, PROGRESS_EVERY, Box::pin(following));
        let followed: Result<(), Failure> = job.unless_cancelled(following).await;
        followed.map_err(|error| error.not_remedied(Remedy::Output))?;
        Ok(Done::all())
    }

    fn said(self, _: Saying) -> Result<Command, NoCommand> {
        if self.names.len() > FOLLOWED_MAX {
            return Err(NoCommand::usage(format!("one command follows at most {FOLLOWED_MAX} names")));
        }
        self.wanted().map_err(NoCommand::usage)?;
        let folder = absolute(".").context("the current folder is unknown").map_err(NoCommand::Failed)?;
        Ok(Self { folder: LocalPath(folder), ..self }.into())
    }

    fn about(&self) -> About<'_> {
        About {
            shape: Shape::Lines,
            is_endless: true,
            stores_files: true,
            names: Word::names(&self.names),
            paths: self.exec.iter().map(|_| self.folder.0.as_path()).collect(),
            by_ticket: self.wanted().ok().and_then(|(_, wanted)| wanted.by_ticket()),
            ..About::needing(Need::Serving)
        }
    }
}

/// Takes those of `names` that nobody shares, and that are folders with files, for the folders.
async fn take_folders(
    peer: &PeerHandle,
    names: &mut Vec<FileName>,
    (wanted, via): (&mut Wanted, &Via),
) -> Result<(), Failure> {
    let is_held = |name: &FileName| peer.library.catalogue.get(name).is_some();
    let mut bare = names.clone();
    bare.retain(|name| wanted.of(name).is_none() && !is_held(name));
    for name in bare {
        let folder = Word::Name(name.clone()).pattern();
        let network = Among::Network(wanted.ttl_hops, via);
        let held = matching(peer, &folder, Among::Here, None).await?;
        if held.is_empty() && matching(peer, &folder, network, None).await.is_ok_and(|below| below.is_empty())
        {
            continue;
        }
        let hits = named::search(peer, std::slice::from_ref(&name), wanted.ttl_hops).await;
        let is_shared = hits.map_or(held.is_empty(), |hits| !hits.iter().all(FoundRow::of_none));
        if !is_shared {
            names.retain(|other| *other != name);
            wanted.patterns.push(folder);
        }
    }
    Ok(())
}

/// What is looked for again and again: files that match and are not followed yet, held here or shared.
struct NewFiles<'a> {
    patterns: &'a [Pattern],
    /// What is below names, which may become folders as long as nobody shares them.
    folders: &'a [Pattern],
    among: Among<'a>,
    change: PreferenceChange,
    followed: &'a Mutex<HashSet<FileName>>,
    batches: mpsc::Sender<NewNames>,
}

impl NewFiles<'_> {
    async fn find(&self, peer: &PeerHandle, answer: &Answer) -> Result<(), Failure> {
        let catalogue = &peer.library.catalogue;
        let (mut is_full, mut was_full) = (false, false);
        for round in 0_u64.. {
            let is_absent = |name: &str| FileName::new(name).is_ok_and(|name| catalogue.get(&name).is_none());
            let folders = self.folders.iter().filter(|folder| is_absent(folder.text.trim_end_matches('/')));
            let is_said = |pattern: &&Pattern| self.patterns.contains(pattern);
            for pattern in self.patterns.iter().chain(folders) {
                let mut new = matching(peer, pattern, Among::Here, None).await?;
                // Of an indexer that is away an event has told.
                new.extend(matching(peer, pattern, self.among, None).await.unwrap_or_default());
                if new.is_empty() && round == 0 && is_said(&pattern) {
                    let note = format!("note: nothing matches {} yet; follow waits for it", pattern.text);
                    answer.send(Reply::Note(note)).await?;
                }
                new.retain(|name| {
                    let is_own = catalogue.get(name).is_some_and(|held| catalogue.is_own(&held));
                    let mut followed = self.followed.lock();
                    let has_room = followed.len() < FOLLOWED_FILES_MAX;
                    is_full |= !has_room && !is_own && !followed.contains(name);
                    !is_own && has_room && followed.insert(name.clone())
                });
                if is_full && !was_full {
                    let help = "follow each folder in it with a command of its own, or share it as a set";
                    let note = format!("note: {FOLLOWED_FILES_MAX} files are followed, and no more: {help}");
                    answer.send(Reply::Note(note)).await?;
                }
                was_full = is_full;
                if !new.is_empty() {
                    prefer(peer, &new, self.change).await?;
                    let _ = self.batches.send((new, pattern.origin.clone())).await; // it has ended
                }
            }
            sleep(SEARCH_EVERY).await;
        }
        Ok(())
    }
}

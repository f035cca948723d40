//! Carries out the publishing of files, and tells what became of them.

use std::path::PathBuf;

use nekoproto::{FileName, VerifiedRecord};

use super::{
    Answer, Done, Failure, Outcome, PublishedFields, PublishedRow, Reply, SkippedFields, Ticketed,
    job::Job,
    named::{ALL, tickets::Tickets},
    rows::UnpublishedRow,
};
use crate::{
    peer::PeerHandle,
    publish::{PublishOptions, PublishOutcome},
    rules::{SkipCause, Skipped},
};

pub(super) fn title(paths: &[PathBuf]) -> String {
    match paths {
        [] => String::new(),
        [path] => path.display().to_string(),
        [first, others @ ..] => format!("{} and {} more", first.display(), others.len()),
    }
}

/// Files that failed, and copies, that one answer lists.
const LISTED_MAX: usize = 10_000;

pub(super) async fn publish(
    peer: &PeerHandle,
    paths: Vec<PathBuf>,
    options: PublishOptions,
    job: &Job,
    answer: &Answer,
) -> Result<Done, Failure> {
    peer.indexers_tried().await; // so that files are registered before they are reported as published
    let (tickets, names_skipped) = (Tickets::of(peer).await, options.names_skipped);
    let root = peer.library.share.root();
    let is_all = paths.iter().any(|path| path.canonicalize().is_ok_and(|path| path == *root));
    let publishing = async {
        let mut publishing = peer.publisher.publishing(paths, options, &job.progress);
        let (mut fields, mut is_any, mut folder) = (PublishedFields::default(), false, Common::default());
        while let Some(outcome) = publishing.next().await? {
            (fields.indexers_told, fields.confirmed) = (outcome.indexers_told as u64, outcome.is_confirmed);
            is_any |= !outcome.published.is_empty() || !outcome.unchanged.is_empty();
            told(&outcome, &tickets, answer).await?;
            outcome.published.iter().chain(&outcome.unchanged).for_each(|record| folder.add(&record.name));
            failed(&outcome, job);
            let is_named = |skipped: &&Skipped| names_skipped || skipped.cause == SkipCause::Secret;
            for skipped in outcome.skipped.iter().filter(is_named) {
                let note = format!("skipped {}: {}", skipped.path.display(), skipped.cause);
                answer.send(Reply::Note(note)).await?;
            }
            fields.add(outcome);
        }
        let folder = folder.name(is_all).and_then(|folder| FileName::new(folder).ok());
        fields.ticket = folder.and_then(|folder| tickets.ticket(&folder, peer.node(), None));
        let is_any = is_any || !fields.copies.is_empty() || !fields.withdrawn.is_empty();
        let outcome = match (fields.failed.is_empty(), is_any) {
            (true, false) if fields.skipped.has_unasked() => Outcome::NotFound,
            (true, _) => Outcome::All,
            (false, true) => Outcome::Part,
            (false, false) => Outcome::Nothing,
        };
        Ok(Done::with(outcome, &fields))
    };
    answer.reporting(&job.progress, publishing).await
}

/// The folder that names have in common.
#[derive(Default)]
struct Common {
    names: usize,
    /// Its path, with a slash at the end.
    folder: String,
}

impl Common {
    fn add(&mut self, name: &FileName) {
        let of = |name: &str| name.rfind('/').map_or(0, |at| at + 1);
        if self.names == 0 {
            name.as_str()[..of(name.as_str())].clone_into(&mut self.folder);
        }
        self.names += 1;
        while !name.as_str().starts_with(&self.folder) {
            let shorter = of(self.folder.trim_end_matches('/'));
            self.folder.truncate(shorter);
        }
    }

    /// Its name, or what stands for all if the share folder itself `is_all` shared; `None` if there is none, or only one name.
    fn name(&self, is_all: bool) -> Option<&str> {
        let name = if self.folder.is_empty() && is_all { ALL } else { self.folder.trim_end_matches('/') };
        (self.names > 1 && !name.is_empty()).then_some(name)
    }
}

impl PublishedFields {
    fn add(&mut self, outcome: PublishOutcome) {
        for (path, error) in outcome.failed {
            let path = path.to_string_lossy().into_owned();
            self.failed.push(UnpublishedRow { why: error.into(), path });
        }
        self.copies.extend(outcome.copies);
        self.withdrawn.extend(outcome.unshared);
        self.missing.extend(outcome.missing);
        outcome.skipped.iter().for_each(|skipped| self.skipped.add(skipped));
        self.more += self.failed.len().saturating_sub(LISTED_MAX);
        self.failed.truncate(LISTED_MAX);
        for names in [&mut self.copies, &mut self.withdrawn, &mut self.missing] {
            self.more += names.len().saturating_sub(LISTED_MAX);
            names.truncate(LISTED_MAX);
        }
    }
}

impl SkippedFields {
    /// Whether anything is skipped that nobody asked to be.
    pub(super) const fn has_unasked(&self) -> bool {
        self.links + self.hidden_files + self.hidden_folders + self.others > 0
    }

    fn add(&mut self, Skipped { cause, is_folder, is_published, .. }: &Skipped) {
        *match cause {
            SkipCause::Hidden if *is_folder => &mut self.hidden_folders,
            SkipCause::Hidden => &mut self.hidden_files,
            SkipCause::Link => &mut self.links,
            SkipCause::Ignored => &mut self.ignored,
            SkipCause::Excluded => &mut self.excluded,
            SkipCause::NotAFile => &mut self.others,
            SkipCause::Secret => &mut self.secret,
        } += 1;
        self.still_shared += u64::from(*is_published);
    }
}

pub(super) async fn told(
    outcome: &PublishOutcome,
    tickets: &Tickets,
    answer: &Answer,
) -> Result<(), Failure> {
    let row = |record: &VerifiedRecord, row: fn(Ticketed) -> PublishedRow| {
        let ticket = tickets.ticket(&record.name, record.origin, Some(record.version));
        row(Ticketed { version: record.into(), ticket })
    };
    answer.rows_of(&outcome.published, |record| row(record, PublishedRow::Published)).await?;
    answer.rows_of(&outcome.unchanged, |record| row(record, PublishedRow::Unchanged)).await
}

pub(super) fn failed(outcome: &PublishOutcome, job: &Job) {
    outcome.failed.iter().for_each(|(_, error)| job.failed(&Failure::of(error)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_several_names_is_what_all_have_in_common() {
        let common = |names: &[&str]| {
            let mut common = Common::default();
            names.iter().for_each(|name| common.add(&FileName::new(name).unwrap()));
            common.name(false).map(str::to_owned)
        };
        assert_eq!(common(&["odd/in/a", "odd/in/b", "odd/c"]).as_deref(), Some("odd"));
        assert_eq!(common(&["a/odd/b", "a/oddity/c"]).as_deref(), Some("a"));
        for none in [&["odd/a"][..], &["a", "odd/b"], &["odd/a", "even/b"], &[]] {
            assert_eq!(common(none), None, "{none:?}");
        }
        let mut all = Common::default();
        ["a", "odd/b"].into_iter().for_each(|name| all.add(&FileName::new(name).unwrap()));
        assert_eq!((all.name(true), Common::default().name(true)), (Some(ALL), None));
    }
}

//! Makes the [`Failure`]s of downloads. After each the file in the destination is unchanged, and the verified chunks of the new
//! one are kept for the next attempt.

use nekoproto::{FileName, NodeId, Record, Remedy, VerifiedRecord, Version};

use crate::failure::{Failure, FailureKind, Reason};

/// What became of the bytes of a download that did not come to its end, and of those that were passed on in order.
pub(super) const KEPT: &str = "what came is kept, run it again to go on";
pub(super) const PASSED_ON: &str = "what came is passed on and not kept";

/// Origins that a message names.
const NAMED_MAX: usize = 8;

/// An earlier version, `None`: the one before, is not among those that are kept here.
pub(super) fn not_kept(name: &FileName, version: Option<Version>, kept: &[Version]) -> Failure {
    let kept: Vec<String> = kept.iter().map(Version::to_string).collect();
    let message = match (version, kept.is_empty()) {
        (Some(version), false) => {
            format!("version {version} of {name} is not kept here, but {}", kept.join(", "))
        }
        (version, _) => {
            let which = version.map_or("no earlier version".to_owned(), |version| {
                format!("version {version} is not kept, and none")
            });
            format!("{name}: {which} is kept here")
        }
    };
    Failure::missing(message).remedied(Remedy::Keep).because(Reason::NotKept)
}

pub(super) fn not_here(name: &FileName) -> Failure {
    Failure::missing(format!("{name} is neither shared nor held here: nekopeer ls says what is"))
        .because(Reason::NotKept)
}

/// Several origins share files under the name: different ones, or what follows goes on by itself.
pub(super) fn ambiguous(name: &FileName, records: &[VerifiedRecord]) -> Failure {
    let is_same = records.windows(2).all(|two| two[0].content == two[1].content);
    let (files, why) = match is_same {
        true => ("the same bytes", ", and each publishes its own next version"),
        false => ("different files", ""),
    };
    let origins: Vec<NodeId> = records.iter().map(|record| record.origin).collect();
    let (count, each) = (origins.len(), of_each(name, &origins));
    let message = format!("{count} origins share {files} as {name}{why}: say which, {each}");
    Failure::conflict(message).because(Reason::Ambiguous { name: name.clone(), origins })
}

/// What to type for the file of each of these origins.
fn of_each(name: &FileName, origins: &[NodeId]) -> String {
    let named = origins.iter().take(NAMED_MAX).map(|origin| format!("{name}@{}", origin.short()));
    let named: Vec<String> = named.collect();
    format!("{}{}", named.join(" or "), if origins.len() > NAMED_MAX { " or another" } else { "" })
}

pub(super) fn not_found(name: &FileName, complete: bool) -> Failure {
    let partly = if complete { "" } else { " (but not every indexer answered)" };
    let help = "check the name, or try again when its holders are back";
    Failure::missing(format!("nobody shares {name}{partly}: {help}")).passing().because(Reason::NotFound)
}

/// The origin that was asked for, by the first digits of its id, does not share the file; others may.
pub(super) fn not_of_origin(name: &FileName, origin: &str, others: Vec<NodeId>, complete: bool) -> Failure {
    let short = origin.get(..10).unwrap_or(origin); // as lists show it
    let help = "check both, or try again when its holders are back";
    let why = match (others.is_empty(), origin.len()) {
        (false, _) => format!("no origin {short} shares {name}, but there is {}", of_each(name, &others)),
        (true, 10..64) => format!(
            "nobody shares {name} of origin {short}: {help}; what is called {name}@{origin} is {name}@{origin}@ID"
        ),
        (true, _) => format!("nobody shares {name} of origin {short}: {help}"),
    };
    let partly = if complete { "" } else { " (the answer is incomplete: not all that share it are listed)" };
    let reason = Reason::NotOfOrigin { others, complete };
    Failure::missing(format!("{why}{partly}")).passing().because(reason)
}

pub(super) fn origin_gone(name: &FileName, origin: &NodeId, others: &[NodeId]) -> Failure {
    let (origin, other) = (origin.short(), of_each(name, others));
    let message = format!(
        "origin {origin}, whose {name} is or was here, no longer shares it; {other} takes the one of another"
    );
    Failure::missing(message).passing().because(Reason::NotThere)
}

pub(super) fn withdrawn(withdrawal: &VerifiedRecord) -> Failure {
    let Record { name, origin, version, .. } = &**withdrawal;
    let message = format!(
        "{name} was unshared by its origin {} as version {version}: nobody shares it until the origin does again; \
         {name}@ID takes the file of another origin, if there is one",
        origin.short()
    );
    Failure::missing(message).passing().because(Reason::Withdrawn)
}

pub(super) fn older(name: &FileName, found: Version, held: Version) -> Failure {
    let message = format!(
        "only version {found} of {name} can be found, and version {held} is or was here: try again when who has a newer \
         one is back"
    );
    Failure::with(FailureKind::Away, message).because(Reason::NotThere)
}

pub(crate) fn own(name: &FileName) -> Failure {
    Failure::conflict(format!("{name} is shared by this peer itself: it is here already, ls says where"))
}

pub(crate) fn already_running(name: &FileName) -> Failure {
    let message = format!("{name} is being downloaded already: wait for that");
    Failure::with(FailureKind::Busy, message).because(Reason::AlreadyRunning)
}

pub(super) fn unconfirmed(name: &FileName) -> Failure {
    let message = format!(
        "the policy of {name} is strict, and its origin does not confirm that this is the newest version: try again when \
         the origin is reachable"
    );
    Failure::with(FailureKind::Away, message).because(Reason::Unconfirmed)
}

pub(super) fn origin_lies(name: &FileName) -> Failure {
    let what = "the origin signed a content hash that its own chunks do not have: it must be shared again";
    Failure::new(format!("{name}: {what}")).because(Reason::OriginLies)
}

pub(crate) fn pipe_broke(name: &FileName, error: &std::io::Error) -> Failure {
    let kind = match error.kind() {
        // What was to be stored did not come to its end.
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => FailureKind::Invalid,
        _ => FailureKind::Failed,
    };
    Failure::with(kind, format!("{name}: the pipe broke: {error}"))
}

/// The sources of `record` are exhausted; `why` is the last one's failure.
pub(super) fn exhausted(record: &VerifiedRecord, why: Option<String>) -> Failure {
    undelivered(record, why, KEPT)
}

/// The same, with what became of the bytes that came.
pub(super) fn undelivered(record: &VerifiedRecord, why: Option<String>, kept: &str) -> Failure {
    let why = why.unwrap_or_else(|| "it has no source that other machines can connect to".to_owned());
    let name = &record.name;
    let message = format!("no source delivers {name} to its end: {why}; {kept}");
    Failure::with(FailureKind::Away, message).because(Reason::NoSource)
}

impl Failure {
    /// Whether it may be found where no indexer looks.
    pub(super) const fn is_not_found(&self) -> bool {
        matches!(self.reason, Reason::NotFound | Reason::NotOfOrigin { .. } | Reason::NotThere)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, path::Path};

    use nekoproto::ContentHash;
    use testkit::goods;

    use super::*;
    use crate::storage::{catalogue::overtaken, error_at};

    #[test]
    fn what_only_a_user_can_change_is_not_tried_again_and_all_else_is() {
        let (name, path) = (FileName::new("a").unwrap(), Path::new("a"));
        let passing = [
            older(&name, Version::FIRST, Version::FIRST),
            withdrawn(&goods::record(1, "a", 1, |_| {})),
            not_found(&name, true),
            already_running(&name),
            error_at(path)(ErrorKind::TimedOut.into()),
            error_at(path)(ErrorKind::InvalidFilename.into()),
            error_at(path)(ErrorKind::StorageFull.into()),
            Failure::with(FailureKind::Busy, "downloaded by another process"),
        ];
        assert!(passing.iter().all(|failure| failure.may_pass), "{passing:?}");
        let lasting = [
            not_kept(&name, None, &[]),
            origin_lies(&name),
            own(&name),
            pipe_broke(&name, &ErrorKind::BrokenPipe.into()),
            overtaken(&name),
            Failure::conflict("changed meanwhile"),
        ];
        assert!(!lasting.iter().any(|failure| failure.may_pass), "{lasting:?}");
    }

    #[test]
    fn of_many_origins_few_are_named() {
        let content = |n: u16| ContentHash::from_bytes(*blake3::hash(&n.to_be_bytes()).as_bytes());
        let record = |n| goods::record(n, "a", 1, |record| record.content = content(n));
        let said = |count| {
            let origins: Vec<_> = (0..count).map(record).collect();
            let ids: Vec<_> = origins.iter().map(|record| record.origin).collect();
            (ambiguous(&FileName::new("a").unwrap(), &origins).to_string(), ids)
        };
        let (all, ids) = said(8);
        assert!(ids.iter().all(|id| all.contains(&format!("a@{}", id.short()))), "{all}");
        assert!(!all.contains("another"), "{all}");
        let many = said(500).0;
        assert!(many.len() < 250 && many.contains("500") && many.ends_with("or another"), "{many}");
    }
}

//! The judge: whether a recorded history keeps the promises of docs/consistency.md. Pure. It accuses only what no
//! order of events allows: an interval counts from the end of what began it to the beginning of what ended it.

use crate::program::*;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at: Duration,
    pub(super) name: String,
    pub(super) event: Event,
}

/// The command of a `Published` version has ended; if that is `confirmed`, an indexer lists it, and until then its number may
/// change. An origin that was `SetBack` did not know what it published after that
/// time; one that `Lost` its catalogue, what no indexer had listed. What `WasInPlace` was in the place of a copy when it was opened, and may have been replaced since.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Begun { content: String },
    Published { version: u64, content: String, confirmed: bool },
    SetBack { to: Duration },
    Lost,
    Said { by: Reader, version: u64, content: String, fresh: Option<Fresh> },
    InPlace { by: Reader, content: String },
    WasInPlace { by: Reader, content: String },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reader {
    pub(super) number: usize,
    /// It deletes outdated copies, after which an older version replaces nothing.
    pub(super) drops: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Fresh {
    pub(super) asked_at: Duration,
    /// For how long the policy and the reader allow it after the version was the newest.
    pub(super) bound: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// Of docs/consistency.md; `torn` if bytes in place are no version.
    pub(super) promise: &'static str,
    pub(super) step: usize,
    pub(super) name: String,
    pub(super) text: String,
}

pub(super) fn judge(history: &[Entry]) -> Vec<Broken> {
    let mut broken = Vec::new();
    let names: BTreeSet<&str> = history.iter().map(|entry| entry.name.as_str()).collect();
    for name in names {
        let of_name: Vec<_> = history.iter().enumerate().filter(|(_, entry)| entry.name == name).collect();
        let mut say =
            |promise, step, text| broken.push(Broken { promise, step, name: name.to_owned(), text });
        freshness(&of_name, &mut say);
        publication(&of_name, &mut say);
        order(&of_name, &mut say);
    }
    broken.sort_by_key(|broken| broken.step);
    broken
}

/// P1: a version is called fresh past the bound of the one that replaced it.
fn freshness(of_name: &[(usize, &Entry)], say: &mut impl FnMut(&'static str, usize, String)) {
    // A version that the origin published and then forgot, because it was set back, does not bind it.
    let is_undone = |number: usize, at: Duration, confirmed: bool| {
        let mut later = of_name.iter().skip_while(|(other, _)| *other <= number);
        later.any(|(_, entry)| match entry.event {
            Event::SetBack { to } => to < at,
            Event::Lost => !confirmed,
            _ => false,
        })
    };
    let published = |(number, Entry { at, event, .. }): &(usize, &Entry)| match event {
        Event::Published { version, confirmed, .. } => {
            (!is_undone(*number, *at, *confirmed)).then_some((*version, *at))
        }
        _ => None,
    };
    let published: Vec<_> = of_name.iter().filter_map(published).collect();
    for (step, entry) in of_name {
        let Event::Said { by, version, fresh: Some(Fresh { asked_at, bound }), .. } = &entry.event else {
            continue;
        };
        let replaced = published.iter().find(|(newer, at)| newer > version && *at + *bound < *asked_at);
        if let Some((newer, at)) = replaced {
            let late = *asked_at - *at - *bound;
            let text = format!(
                "reader {}: version {version} is called fresh {late:?} after the bound that version {newer} set",
                by.number
            );
            say("P1", *step, text);
        }
    }
}

/// P3, P4, and torn files: what is said and held was published, and a number has one content.
fn publication(of_name: &[(usize, &Entry)], say: &mut impl FnMut(&'static str, usize, String)) {
    // An origin that was set back may publish the same bytes again above a number that was used before.
    let may_renumber = of_name.iter().any(|(_, entry)| matches!(entry.event, Event::SetBack { .. }));
    let acknowledged = of_name.iter().filter_map(|(_, entry)| match &entry.event {
        Event::Published { version, content, confirmed: true } => Some((content.as_str(), *version)),
        _ => None,
    });
    let acknowledged: BTreeMap<&str, u64> = acknowledged.collect();
    let mut begun = BTreeSet::new();
    let mut contents: BTreeMap<u64, &str> = BTreeMap::new();
    for (step, entry) in of_name {
        let (version, content) = match &entry.event {
            Event::Begun { content } => {
                begun.insert(content.as_str());
                continue;
            }
            Event::InPlace { by, content } | Event::WasInPlace { by, content } => {
                if !begun.contains(content.as_str()) {
                    let text = format!("reader {} holds {content:.8}, which is no version", by.number);
                    say("torn", *step, text);
                }
                continue;
            }
            Event::SetBack { .. } | Event::Lost | Event::Published { confirmed: false, .. } => continue,
            Event::Published { version, content, .. } => (*version, content.as_str()),
            Event::Said { by, version, content, .. } => {
                let is_number = acknowledged
                    .get(content.as_str())
                    .is_none_or(|number| number == version || may_renumber && number < version);
                if !begun.contains(content.as_str()) || !is_number {
                    let text = format!(
                        "reader {}: version {version} with {content:.8} was not published",
                        by.number
                    );
                    say("P3", *step, text);
                }
                (*version, content.as_str())
            }
        };
        let known = *contents.entry(version).or_insert(content);
        if known != content {
            say("P4", *step, format!("version {version} is {known:.8} and {content:.8}"));
        }
    }
}

/// P2: a reader goes back, in what it says or in the bytes in place.
fn order(of_name: &[(usize, &Entry)], say: &mut impl FnMut(&'static str, usize, String)) {
    // Contested bytes can have several numbers.
    let mut numbers: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (_, entry) in of_name {
        if let Event::Published { version, content, .. } | Event::Said { version, content, .. } = &entry.event
        {
            let (least, most) = numbers.entry(content).or_insert((*version, *version));
            (*least, *most) = ((*least).min(*version), (*most).max(*version));
        }
    }
    let (mut said, mut held) = (BTreeMap::new(), BTreeMap::new());
    for (step, entry) in of_name {
        match &entry.event {
            Event::Said { by, version, .. } if !by.drops => {
                if let Some(before) = said.insert(by, version).filter(|before| *before > version) {
                    let text = format!("reader {}: version {version} after version {before}", by.number);
                    say("P2", *step, text);
                }
            }
            Event::InPlace { by, content } if !by.drops => {
                let Some((least, most)) = numbers.get(content.as_str()) else { continue };
                // What is said is in place already.
                let least_before = held.insert(by, *least).max(said.get(by).map(|version| **version));
                if let Some(before) = least_before.filter(|before| before > most) {
                    let text =
                        format!("reader {}: bytes of version {most} after those of {before}", by.number);
                    say("P2", *step, text);
                }
            }
            _ => {}
        }
    }
}

#[path = "judge_tests.rs"]
mod tests;

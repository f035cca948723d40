//! What was published and what was said, from all threads, with a log of it for people.

use super::{
    judge::{Broken, Entry, Event, Fresh, Reader, judge},
    world::FILES,
};

use crate::program::*;

/// Lines of the log that are printed when a promise is broken: the last ones that concern the file.
const LOG_SHOWN: usize = 120;

pub(super) struct Record {
    began: Instant,
    facts: Mutex<Facts>,
}

#[derive(Default)]
struct Facts {
    entries: Vec<Entry>,
    faults: usize,
    log: Vec<String>,
    said: HashMap<String, String>,
    /// A reader that never heard of the newest version.
    left_behind: Option<(String, String)>,
}

impl Record {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), facts: Mutex::default() }
    }

    pub(super) fn add(&self, name: &str, event: Event) {
        // The clock is read under the lock, so that the entries are in the order of their times.
        let mut facts = self.facts.lock().unwrap();
        facts.entries.push(Entry { at: self.began.elapsed(), name: name.to_owned(), event });
    }

    pub(super) fn published(&self, who: &str, name: &str, version: u64, content: &str, confirmed: bool) {
        self.add(name, Event::Published { version, content: content.to_owned(), confirmed });
        let but = if confirmed { "" } else { ", which no indexer lists yet" };
        self.note(format!("{who}: {name} is version {version}{but}"));
    }

    pub(super) fn set_back_to(&self, when: Instant) {
        let to = when.saturating_duration_since(self.began);
        FILES.iter().for_each(|(name, ..)| self.add(name, Event::SetBack { to }));
    }

    /// `by`, asked at `asked_at`, said this of its copy; `fresh_for` is the bound, if it called it fresh.
    pub(super) fn said(
        &self,
        by: &Reader,
        name: &str,
        (version, content): (u64, &str),
        asked_at: Instant,
        fresh_for: Option<Duration>,
    ) {
        let asked_at = asked_at.saturating_duration_since(self.began);
        let fresh = fresh_for.map(|bound| Fresh { asked_at, bound });
        let what = format!("version {version}, {}", if fresh.is_some() { "fresh" } else { "not fresh" });
        self.add(name, Event::Said { by: by.clone(), version, content: content.to_owned(), fresh });
        let who = format!("reader {}: {name}", by.number);
        let before = self.facts.lock().unwrap().said.insert(who.clone(), what.clone());
        if before.as_ref() != Some(&what) {
            self.note(format!("{who} {what}"));
        }
    }

    pub(super) fn newest(&self, name: &str) -> u64 {
        let facts = self.facts.lock().unwrap();
        let version = |entry: &Entry| match &entry.event {
            Event::Published { version, .. } if entry.name == name => Some(*version),
            _ => None,
        };
        facts.entries.iter().filter_map(version).max().unwrap()
    }

    pub(super) fn fault(&self, text: String) {
        self.facts.lock().unwrap().faults += 1;
        self.note(text);
    }

    pub(super) fn note(&self, text: String) {
        let since = self.began.elapsed().as_secs_f64();
        self.facts.lock().unwrap().log.push(format!("{since:8.3} {text}"));
    }

    pub(super) fn left_behind(&self, name: &str, text: String) {
        self.facts.lock().unwrap().left_behind = Some((name.to_owned(), text));
    }

    pub(super) fn is_broken(&self) -> bool {
        !judge(&self.facts.lock().unwrap().entries).is_empty()
    }

    pub(super) fn check(&self, seed: u64) {
        let facts = self.facts.lock().unwrap();
        let broken = judge(&facts.entries).into_iter().next();
        let (name, text) = if let Some(Broken { promise, step, name, text }) = broken {
            let Entry { at, .. } = facts.entries[step];
            (name, format!("{promise} is broken at step {step}, after {at:.1?}: {text}"))
        } else if let Some(left_behind) = &facts.left_behind {
            left_behind.clone()
        } else {
            return;
        };
        let others: Vec<_> = FILES.iter().map(|(file, ..)| *file).filter(|file| *file != name).collect();
        let concerns = |line: &&String| {
            line.contains(" it said ") || !others.iter().any(|other| line.contains(&format!(" {other} ")))
        };
        let mut log: Vec<_> = facts.log.iter().rev().filter(concerns).take(LOG_SHOWN).cloned().collect();
        log.reverse();
        drop(facts);
        panic!("seed {seed}: {name}: {text}\n{}", log.join("\n"));
    }

    /// Whether anybody said anything that could have been wrong, and had anything in place.
    pub(super) fn is_tried(&self) -> bool {
        let [published, said, fresh, in_place] = self.counts();
        published > 0 && said > published && fresh > 0 && in_place > 0
    }

    pub(super) fn summary(&self) -> String {
        let ([published, said, fresh, in_place], faults) = (self.counts(), self.facts.lock().unwrap().faults);
        format!(
            "{published} versions published, {faults} faults, {said} statements, {fresh} of them fresh, {in_place} files read"
        )
    }

    fn counts(&self) -> [usize; 4] {
        let facts = self.facts.lock().unwrap();
        let count = |is: fn(&Event) -> bool| facts.entries.iter().filter(|entry| is(&entry.event)).count();
        [
            count(|event| matches!(event, Event::Published { .. })),
            count(|event| matches!(event, Event::Said { .. })),
            count(|event| matches!(event, Event::Said { fresh: Some(_), .. })),
            count(|event| matches!(event, Event::InPlace { .. })),
        ]
    }
}

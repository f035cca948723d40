//! What was published and what was seen, and whether both agree with the promises.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use super::world::FILES;

/// Lines of the log that are printed when a promise is broken: the last ones that concern the file.
const LOG_SHOWN: usize = 120;
/// Time within which the origin hears of what a copy of its folder published, pauses and restarts included. Until
/// then it confirms, in good faith, what is not the newest version any more.
const CLONE_HEARD_WITHIN: Duration = Duration::from_secs(10);

/// Everything that happened, from all threads.
#[derive(Default)]
pub(super) struct History(Mutex<Facts>);

#[derive(Default)]
struct Facts {
    /// The content of each version that anybody was told of.
    contents: HashMap<(String, u64), String>,
    published: Vec<Published>,
    seen: usize,
    fresh: usize,
    faults: usize,
    log: Vec<String>,
    /// What each said last of each file.
    said: HashMap<String, String>,
    /// What was broken, and the file that it concerns.
    broken: Vec<(String, String)>,
    began: Option<Instant>,
}

struct Published {
    name: String,
    version: u64,
    /// When the origin knew of it: the command that published it had ended.
    at: Instant,
    /// The origin was set back to a time before it.
    is_undone: bool,
}

impl History {
    /// `who` was told that this version has this content.
    pub(super) fn saw(&self, who: &str, name: &str, version: u64, content: &str) {
        let mut facts = self.0.lock().unwrap();
        facts.seen += 1;
        let known = facts.contents.entry((name.to_owned(), version)).or_insert_with(|| content.to_owned());
        if known != content {
            let broken = format!("{who}: {name} version {version} is {content:.8} and {known:.8}");
            facts.broken(name, broken);
        }
    }

    /// The command of `who`, by which this version was published, has ended.
    pub(super) fn published(&self, who: &str, name: &str, version: u64) {
        let heard_within = if who == "clone" { CLONE_HEARD_WITHIN } else { Duration::ZERO };
        let at = Instant::now() + heard_within;
        self.0.lock().unwrap().published.push(Published {
            name: name.to_owned(),
            version,
            at,
            is_undone: false,
        });
    }

    /// The origin was set back to what it was at `when`.
    pub(super) fn set_back_to(&self, when: Instant) {
        let mut facts = self.0.lock().unwrap();
        facts.published.iter_mut().filter(|known| known.at > when).for_each(|known| known.is_undone = true);
    }

    /// `who`, asked at `asked_at`, called its copy of this version fresh, which its policy allows for `bound`
    /// after the last time that it was the newest.
    pub(super) fn said_fresh(&self, who: &str, name: &str, version: u64, asked_at: Instant, bound: Duration) {
        let mut facts = self.0.lock().unwrap();
        facts.fresh += 1;
        let is_newer = |known: &&Published| {
            known.name == name && known.version > version && !known.is_undone && known.at + bound < asked_at
        };
        if let Some(newer) = facts.published.iter().find(is_newer) {
            let late = asked_at - newer.at - bound;
            let text = format!(
                "{who}: {name} version {version} is called fresh, {late:?} after the bound that version {} set",
                newer.version
            );
            facts.broken(name, text);
        }
    }

    /// The newest version of `name` that stands.
    pub(super) fn newest(&self, name: &str) -> u64 {
        let facts = self.0.lock().unwrap();
        facts.published.iter().filter(|known| known.name == name).map(|known| known.version).max().unwrap()
    }

    /// Notes a fault, for the log.
    pub(super) fn fault(&self, text: String) {
        self.0.lock().unwrap().faults += 1;
        self.note(text);
    }

    /// Adds to the log what somebody says of a file, unless it says the same again.
    pub(super) fn note_said(&self, who: &str, name: &str, what: String) {
        let said = self.0.lock().unwrap().said.insert(format!("{who}: {name}"), what.clone());
        if said.as_ref() != Some(&what) {
            self.note(format!("{who}: {name} {what}"));
        }
    }

    /// Adds a line to the log.
    pub(super) fn note(&self, text: String) {
        let mut facts = self.0.lock().unwrap();
        let since = facts.began.get_or_insert_with(Instant::now).elapsed();
        facts.log.push(format!("{:8.3} {text}", since.as_secs_f64()));
    }

    pub(super) fn is_broken(&self) -> bool {
        !self.0.lock().unwrap().broken.is_empty()
    }

    /// Panics if nobody said anything that could have been wrong.
    pub(super) fn check_content(&self, seed: u64) {
        let facts = self.0.lock().unwrap();
        assert!(facts.fresh > 0 && facts.seen > facts.published.len(), "seed {seed}: nothing was tried");
    }

    /// Panics with the log if a promise was broken.
    pub(super) fn check(&self, seed: u64) {
        let facts = self.0.lock().unwrap();
        let Some((name, text)) = facts.broken.first() else { return };
        let others: Vec<_> = FILES.iter().map(|(file, ..)| *file).filter(|file| file != name).collect();
        let concerns = |line: &&String| {
            line.contains(" it said ") || !others.iter().any(|other| line.contains(&format!(" {other} ")))
        };
        let mut log: Vec<_> = facts.log.iter().rev().filter(concerns).take(LOG_SHOWN).cloned().collect();
        log.reverse();
        panic!("seed {seed}: {name}: {text}\n{}", log.join("\n"));
    }

    /// A promise is broken that concerns the file `name`.
    pub(super) fn broken(&self, name: &str, text: String) {
        self.0.lock().unwrap().broken(name, text);
    }

    /// One line of figures.
    pub(super) fn summary(&self) -> String {
        let facts = self.0.lock().unwrap();
        let Facts { published, seen, fresh, faults, .. } = &*facts;
        format!(
            "{} versions published, {faults} faults, {seen} statements, {fresh} of them fresh",
            published.len()
        )
    }
}

impl Facts {
    fn broken(&mut self, name: &str, text: String) {
        self.log.push(format!("BROKEN   {text}"));
        self.broken.push((name.to_owned(), text));
    }
}

//! What happened in a simulation, and the judge of the promises: a fold over it.

use nekoproto::{ContentHash, Freshness, Version};

use super::cells::{Mishaps, Setting};
use crate::prelude::*;
use crate::report::count;

#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// The user of the folder published another version.
    Published,
    /// A message was sent whose arguments, or answer, take so many bytes; frames and TLS are not counted.
    Sent(Message, usize),
    /// A copy of this freshness was read, whose version had been replaced so long ago.
    Read(Freshness, Option<Duration>),
    /// A query found the file, of which the newest hit had been replaced so long ago.
    Found(Option<Duration>),
    /// A reader believed in a version that was never shared.
    Misled,
    /// A download ended: the reader held the first of these before, and holds the second.
    Downloaded([(Version, ContentHash); 2]),
    Forged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The origin registers a new version.
    Registration,
    /// The origin tells a subscriber of a version.
    Notice,
    /// Any other node tells of a version.
    Invalidation,
    Question,
    Answer,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Coherence {
    /// By their keys in results.
    pub figures: BTreeMap<&'static str, f64>,
    /// Broken promises of each kind, forged versions, and all broken promises, the same.
    pub counts: BTreeMap<&'static str, usize>,
    /// For each read that was served as fresh and was not current: seconds since the version was replaced.
    pub stale_s: Vec<f64>,
}

pub fn judge(log: &[Fact], setting: &Setting) -> Coherence {
    use Message::{Invalidation, Notice, Question, Registration};
    let all = |is: &dyn Fn(&Fact) -> bool| log.iter().filter(|fact| is(fact)).count();
    let sent = |of: &[Message]| all(&|fact| matches!(fact, Fact::Sent(message, _) if of.contains(message)));
    let bytes = log.iter().map(|fact| if let Fact::Sent(_, bytes) = fact { *bytes } else { 0 }).sum();
    let fresh = all(&|fact| matches!(fact, Fact::Read(Freshness::Fresh, _)));
    let stale: Vec<Duration> = log.iter().filter_map(|fact| stale(fact, setting)).collect();
    let stale_s: Vec<f64> = stale.iter().map(Duration::as_secs_f64).collect();
    let found = all(&|fact| matches!(fact, Fact::Found(_)));
    let is_late = |ago: &Duration| ago > setting.delay.end();
    let late = all(&|fact| matches!(fact, Fact::Found(Some(ago)) if is_late(ago)));
    let updates = all(&|fact| *fact == Fact::Published);
    let share = |part: usize, of: usize| 100.0 * count(part) / count(of.max(1));
    let each = |all: usize| count(all) / count(updates.max(1));
    let figures = BTreeMap::from([
        ("invalid_percent", share(all(&|fact| matches!(fact, Fact::Found(Some(_)))), found)),
        ("invalid_late_percent", share(late, found)),
        ("fresh_percent", share(fresh, all(&|fact| matches!(fact, Fact::Read(..))))),
        ("stale_percent", share(stale.len(), fresh)),
        ("fidelity_percent", 100.0 - share(stale.len(), fresh)),
        ("stale_mean_s", stale_s.iter().fold(0.0, |sum, age| sum + age) / count(stale.len().max(1))),
        ("stale_max_s", stale_s.iter().copied().fold(0.0, f64::max)),
        ("messages_per_update", each(sent(&[Registration, Notice, Invalidation]))),
        ("questions_per_update", each(sent(&[Question]))),
        ("all_per_update", each(sent(&[Registration, Notice, Invalidation, Question]))),
        ("bytes_per_update", each(bytes)),
        ("origin_per_update", each(sent(&[Registration, Notice, Question]))),
        ("updates", count(updates)),
    ]);
    let bound = setting.policy.bound() + *setting.delay.end();
    let past_bound = stale.iter().filter(|ago| **ago > bound).count();
    let (went_back, two_contents) = disorder(log);
    let never_shared = all(&|fact| *fact == Fact::Misled);
    let counts = BTreeMap::from([
        ("past_bound", past_bound),
        ("went_back", went_back),
        ("two_contents", two_contents),
        ("never_shared", never_shared),
        ("forged", all(&|fact| *fact == Fact::Forged)),
        ("violations", past_bound + went_back + two_contents + never_shared),
    ]);
    Coherence { figures, counts, stale_s }
}

/// How long ago the version was replaced that was read as fresh. Where numbers are given up, that is not known.
fn stale(fact: &Fact, setting: &Setting) -> Option<Duration> {
    let Fact::Read(Freshness::Fresh, replaced) = fact else { return None };
    replaced.filter(|_| setting.mishaps != Some(Mishaps::Backups))
}

/// Copies that were replaced by an older version, or by other bytes under the same number; and numbers under which readers
/// hold two contents.
fn disorder(log: &[Fact]) -> (usize, usize) {
    let (mut went_back, mut two_contents, mut contents) = (0, 0, HashMap::new());
    for fact in log {
        let Fact::Downloaded([before, now]) = fact else { continue };
        went_back += usize::from(now.0 < before.0 || now.0 == before.0 && now.1 != before.1);
        two_contents += usize::from(*contents.entry(now.0).or_insert(now.1) != now.1);
    }
    (went_back, two_contents)
}

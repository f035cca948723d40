//! Simulations: programs write, replace and remove files; signs are late or lost; what is published is compared
//! with what was complete.

use rand::{RngExt as _, SeedableRng, rngs::StdRng};

use super::{rescans::Rescans, *};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const SETTLE: Duration = ms(3000);

/// What is on a simulated disk: each write makes another stamp, and some of them are of complete files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct File {
    stamp: u64,
    is_complete: bool,
}

/// One step of a program, at its time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Close,
    Replace,
    Remove,
}

struct World {
    random: StdRng,
    now: Instant,
    disk: HashMap<PathBuf, File>,
    published: HashMap<PathBuf, u64>,
    removed: HashMap<PathBuf, Instant>,
    stamps: u64,
    signs: Vec<(Instant, PathBuf, Sign)>,
    changes: Changes<u64>,
    rescans: Rescans,
    /// Signs are lost until then.
    deaf_until: Instant,
    /// Nobody says anything about this path.
    deaf_path: Option<PathBuf>,
}

impl World {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        Self {
            random: StdRng::seed_from_u64(seed),
            now,
            disk: HashMap::new(),
            published: HashMap::new(),
            removed: HashMap::new(),
            stamps: 0,
            signs: Vec::new(),
            changes: Changes::new(SETTLE),
            rescans: Rescans::new(now),
            deaf_until: now,
            deaf_path: None,
        }
    }

    fn act(&mut self, path: &Path, step: Step) {
        self.stamps += 1;
        let (stamp, late) = (self.stamps, ms(self.random.random_range(0..30)));
        let file = |is_complete| File { stamp, is_complete };
        let sign = match step {
            Step::Write => {
                self.disk.insert(path.to_owned(), file(false));
                Sign::Written
            }
            Step::Close => {
                if let Some(file) = self.disk.get_mut(path) {
                    file.is_complete = true;
                }
                Sign::Complete
            }
            Step::Replace => {
                self.disk.insert(path.to_owned(), file(true));
                Sign::Complete
            }
            Step::Remove => {
                self.disk.remove(path);
                self.removed.insert(path.to_owned(), self.now);
                Sign::Touched
            }
        };
        if self.now >= self.deaf_until && self.deaf_path.as_deref() != Some(path) {
            // In their order.
            let last = self.signs.last().map_or(self.now, |(at, ..)| *at);
            self.signs.push((last.max(self.now + late), path.to_owned(), sign));
        }
    }

    /// Does what the shell does at this time.
    fn tick(&mut self) {
        let now = self.now;
        for (_, path, sign) in self.signs.extract_if(.., |(at, ..)| *at <= now) {
            self.changes.note(path, sign, now);
        }
        if self.rescans.next_at() <= now {
            for (path, file) in &self.disk {
                if self.published.get(path) != Some(&file.stamp) {
                    self.changes.found(path.clone(), Look::File(file.stamp), now);
                }
            }
            for path in self.published.keys().filter(|path| !self.disk.contains_key(*path)) {
                self.changes.found(path.clone(), Look::Missing, now);
            }
            self.rescans.ended(now, now);
        }
        for path in self.changes.due(now) {
            let file = self.disk.get(&path).copied();
            let look = file.map_or(Look::Missing, |file| Look::File(file.stamp));
            match self.changes.looked(&path, look, now) {
                None | Some(Look::Busy) => {}
                Some(Look::Missing) => {
                    let removed = self.removed[&path];
                    let is_heard = removed >= self.deaf_until && self.deaf_path.as_deref() != Some(&path);
                    assert!(!is_heard || now >= removed + SETTLE, "{} is withdrawn at once", path.display());
                    self.published.remove(&path);
                }
                Some(Look::File(stamp)) => {
                    let file = file.unwrap();
                    assert!(file.is_complete, "{} is published half written", path.display());
                    assert_eq!(stamp, file.stamp);
                    self.published.insert(path, stamp);
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += ms(10);
            self.tick();
        }
    }

    fn assert_all_published(&self) {
        let disk: HashMap<_, _> = self.disk.iter().map(|(path, file)| (path.clone(), file.stamp)).collect();
        assert_eq!(self.published, disk);
    }
}

/// Some programs, each with a file of its own, for a while. Writers pause for at most `pause_max`.
fn simulate(world: &mut World, pause_max: Duration, loses: bool) {
    let paths: Vec<PathBuf> = (0..6).map(|n| PathBuf::from(format!("/f{n}"))).collect();
    // For each file: when its program goes on, and how many pieces it still writes.
    let mut programs: Vec<(Instant, Option<u32>)> = vec![(world.now, None); paths.len()];
    let end = world.now + ms(20_000);
    while world.now < end || programs.iter().any(|(_, left)| left.is_some()) {
        for (path, (at, left)) in paths.iter().zip(&mut programs) {
            if *at > world.now || left.is_none() && world.now >= end {
                continue;
            }
            let pause = world.random.random_range(Duration::ZERO..pause_max);
            *at = world.now + pause;
            let step = match *left {
                Some(0) => Step::Close,
                Some(_) => Step::Write,
                None => {
                    [Step::Write, Step::Write, Step::Replace, Step::Remove][world.random.random_range(0..4)]
                }
            };
            *left = match (step, *left) {
                (Step::Write, None) => Some(world.random.random_range(0..5)),
                (Step::Write, Some(pieces)) => Some(pieces - 1),
                _ => None,
            };
            if left.is_none() {
                *at += world.random.random_range(ms(0)..ms(3000));
            }
            world.act(path, step);
        }
        if loses && world.random.random_bool(0.001) {
            // The queue of events is full for a while, which is said.
            world.deaf_until = world.now + world.random.random_range(ms(0)..ms(3000));
            let now = world.now;
            for (_, path, sign) in std::mem::take(&mut world.signs) {
                world.changes.note(path, sign, now);
            }
            world.changes.lost(now);
            world.rescans.soon(world.deaf_until);
        }
        world.pass(ms(10));
    }
}

#[test]
fn what_is_written_with_pauses_is_published_once_complete_and_soon() {
    for seed in 0..50 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        world.rescans.ended(world.now, world.now + ms(100_000_000)); // never
        simulate(&mut world, QUIET_OPEN - ms(50), false);
        world.pass(SETTLE + QUIET * 2);
        world.assert_all_published();
    }
}

#[test]
fn what_no_event_told_is_found_and_nothing_half_written_is_published() {
    for seed in 0..150 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        world.deaf_path = Some(PathBuf::from("/f0"));
        simulate(&mut world, QUIET_FOUND / 2 - ms(50), true);
        world.pass(rescans::EVERY + QUIET_OPEN * 2);
        world.assert_all_published();
    }
}

#[test]
fn file_that_is_written_on_and_on_waits_and_holds_up_no_other() {
    let mut world = World::new(1);
    let (log, other) = (Path::new("/log"), Path::new("/other"));
    for _ in 0..200 {
        world.act(log, Step::Write);
        world.act(other, Step::Replace);
        world.pass(QUIET * 2);
        assert_eq!(world.published.get(other), Some(&world.disk[other].stamp));
        assert_eq!(world.published.get(log), None);
    }
    world.act(log, Step::Close);
    world.pass(QUIET * 2);
    world.assert_all_published();
}

#[test]
fn file_that_is_replaced_is_not_withdrawn_and_what_vanishes_with_its_folder_is_forgotten() {
    let (mut changes, start, path) = (Changes::new(SETTLE), Instant::now(), Path::new("/d/a"));
    changes.note(path.to_owned(), Sign::Touched, start);
    let first = changes.next_at().unwrap();
    assert!(changes.due(start).is_empty() && changes.due(first) == [path]);
    assert_eq!(changes.looked(path, Look::Missing, first), None);
    let second = changes.next_at().unwrap();
    assert_eq!(changes.looked(path, Look::File(2), second), None, "another took its place");
    let third = changes.next_at().unwrap();
    assert!(third >= second + QUIET);
    assert_eq!(changes.looked(path, Look::Busy, third), None);
    changes.forget_below(Path::new("/d"));
    assert_eq!(changes.next_at(), None);
    assert_eq!(changes.looked(path, Look::File(2), third + QUIET), None);
}

/// A log stays open for ever: it is published whenever it was quiet for long. Of what other machines write no close is seen.
#[test]
fn file_that_stays_open_or_whose_close_is_not_seen_is_published_after_a_long_quiet_and_no_sooner() {
    let (start, log, theirs) = (Instant::now(), Path::new("/log"), Path::new("/theirs"));
    let mut changes = Changes::new(SETTLE);
    changes.set_blind();
    changes.note(log.to_owned(), Sign::Written, start);
    changes.found(theirs.to_owned(), Look::File(1), start);
    let (mut now, mut published) = (start, Vec::new());
    while let Some(next) = changes.next_at() {
        now = next;
        for path in changes.due(now) {
            published.extend(changes.looked(&path, Look::File(1), now).map(|_| path));
        }
    }
    published.sort();
    assert_eq!((now, published), (start + QUIET_OPEN, vec![log.to_owned(), theirs.to_owned()]));
}

#[test]
fn file_that_is_made_anew_or_moved_back_before_it_is_settled_is_never_withdrawn() {
    let (start, path) = (Instant::now(), Path::new("/a"));
    for settle in [Duration::ZERO, SETTLE] {
        let mut changes = Changes::new(settle);
        changes.note(path.to_owned(), Sign::Touched, start);
        let withdrawn_at = loop {
            let now = changes.next_at().unwrap();
            if changes.looked(path, Look::<u8>::Missing, now) == Some(Look::Missing) {
                break now;
            }
        };
        assert_eq!(withdrawn_at, start + settle.max(QUIET));
    }
    let mut changes = Changes::new(SETTLE);
    changes.note(path.to_owned(), Sign::Written, start);
    changes.note(path.to_owned(), Sign::Touched, start);
    assert_eq!(changes.looked(path, Look::Missing, start + QUIET), None);
    changes.note(path.to_owned(), Sign::Complete, start + SETTLE - ms(1));
    assert_eq!(changes.looked(path, Look::File(2), start + SETTLE), None);
    assert_eq!(changes.looked(path, Look::File(2), start + SETTLE + QUIET), Some(Look::File(2)));
    // Its folder was moved away and back: no sign is of the file itself.
    changes.found(path.to_owned(), Look::Missing, start);
    assert_eq!(changes.looked(path, Look::File(2), start + SETTLE), None);
    assert_eq!(changes.looked(path, Look::File(2), start + SETTLE + QUIET_FOUND), Some(Look::File(2)));
}

#[test]
fn file_that_is_open_after_all_waits_for_its_close_or_for_long() {
    let (now, path) = (Instant::now(), PathBuf::from("a"));
    let look = |changes: &mut Changes<u64>, after| changes.looked(&path, Look::File(1), now + after);
    let opened = || {
        let mut changes = Changes::new(SETTLE);
        changes.found_open(path.clone(), Look::File(1), now);
        assert!(!changes.is_brief(&path), "it is not waited for once more");
        changes
    };
    let mut changes = opened();
    assert_eq!(look(&mut changes, QUIET_FOUND), None);
    assert_eq!(look(&mut changes, QUIET_OPEN), Some(Look::File(1)), "as a log is");
    let mut changes = opened();
    changes.note(path.clone(), Sign::Complete, now + ms(1));
    assert_eq!(look(&mut changes, ms(200)), None);
    assert_eq!(look(&mut changes, ms(1) + QUIET), Some(Look::File(1)));
}

//! A random schedule over real processes: an origin, three indexers and five readers with different policies
//! are killed, paused, restored from old copies, multiplied and driven from several shells, against a recorded
//! history. `NEKO_SCHEDULE_SEEDS` (`FIRST..END`) and `NEKO_SCHEDULE_SECONDS` make it longer.

mod history;
mod world;

use std::{
    env,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use self::{
    history::History,
    world::{FILES, INDEXERS, READERS, World, pause},
};

/// How long the schedule lasts unless told otherwise.
const SECONDS: u64 = 12;

#[test]
fn random_schedule_keeps_the_promises() {
    let seconds = env::var("NEKO_SCHEDULE_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
    for seed in seeds() {
        println!("seed {seed}, {seconds} s");
        let history = run(seed, Duration::from_secs(seconds));
        println!("{}", history.summary());
    }
}

/// An indexer in a process of its own, when the schedule starts this test so.
#[test]
fn be_an_indexer() {
    world::be_an_indexer();
}

fn seeds() -> Range<u64> {
    let Ok(text) = env::var("NEKO_SCHEDULE_SEEDS") else { return 1..2 };
    let (first, end) = text.split_once("..").unwrap();
    first.parse().unwrap()..end.parse().unwrap()
}

fn run(seed: u64, lasts: Duration) -> History {
    let history = History::default();
    let world = World::start();
    (0..FILES.len()).for_each(|file| world.publish(file, seed, &history));
    let (ends_at, is_over) = (Instant::now() + lasts, AtomicBool::new(false));
    thread::scope(|scope| {
        for reader in 0..READERS.len() {
            let (world, history, is_over) = (&world, &history, &is_over);
            scope.spawn(move || {
                let _end = EndsAll(is_over);
                let mut rng = StdRng::seed_from_u64(seed ^ (reader as u64 + 1) << 32);
                while !is_over.load(Ordering::Relaxed) {
                    world.read(reader, &mut rng, history);
                }
            });
        }
        scope.spawn(|| {
            let _end = EndsAll(&is_over);
            let mut rng = StdRng::seed_from_u64(!seed);
            while !is_over.load(Ordering::Relaxed) {
                world.publish(rng.random_range(0..FILES.len()), rng.random(), &history);
                pause(rng.random_range(0..600));
            }
        });
        let _end = EndsAll(&is_over);
        let mut rng = StdRng::seed_from_u64(seed);
        while Instant::now() < ends_at && !history.is_broken() {
            disturb(&world, &mut rng, &history);
        }
    });
    history.check(seed);
    world.heal(&history);
    (0..FILES.len()).for_each(|file| world.publish(file, rand::random(), &history));
    world.wait_until_all_follow(seed, &history);
    history.check(seed);
    history.check_content(seed);
    history
}

/// Ends all threads when the first of them ends, also by a panic.
struct EndsAll<'a>(&'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One random fault.
fn disturb(world: &World, rng: &mut StdRng, history: &History) {
    let down = Duration::from_millis(rng.random_range(0..3000));
    match rng.random_range(0..14) {
        0..3 => world.kill_reader(rng.random_range(0..READERS.len()), down, history),
        3 | 4 => world.pause_reader(rng.random_range(0..READERS.len()), down, history),
        5 => world.kill_indexer(rng.random_range(0..INDEXERS), down, history),
        6 => world.pause_indexer(rng.random_range(0..INDEXERS), down, history),
        7 => world.kill_origin(down, history),
        8 => world.pause_origin(down, history),
        9 | 10 => world.back_up_origin(history),
        11 => world.restore_origin(history),
        12 => world.lose_catalogue(history),
        _ => world.run_clone(rng.random_range(0..FILES.len()), rng.random(), history),
    }
    pause(rng.random_range(0..1000));
}

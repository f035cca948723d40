//! A history checker for coherent copies: a random schedule over real processes, judged by what was recorded. An
//! origin, three indexers and five readers with different policies are killed, paused, restored from old copies,
//! multiplied, cut off from the network and driven from several shells. `NEKO_SEEDS` and `NEKO_SCHEDULE_SECONDS` make it
//! longer; docs/consistency.md has more.

mod faults;
mod judge;
mod node;
mod record;
mod seen;
mod user;
mod world;

use std::env;

use testkit::{lan::Wan, machine::NETWORKS};

use self::{
    faults::faults,
    record::Record,
    world::{FILES, HOSTS, READERS, WIRE, World, pause},
};

use crate::program::*;

const SECONDS: u64 = 6;
/// A schedule goes on for this long at most until somebody has a copy.
const TRIED_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn random_schedule_keeps_the_promises() {
    each_seed(|| Some(None));
}

/// Each process on a host of its own; hosts are cut off, one way or both.
#[test]
fn random_schedule_on_a_network_keeps_the_promises() {
    each_seed(|| NETWORKS.or_left_out(Wan::of(&[WIRE; HOSTS])).map(Some));
}

#[expect(clippy::print_stdout, reason = "says what a seed came to")]
fn each_seed(mut network: impl FnMut() -> Option<Option<Wan>>) {
    for seed in testkit::seeds(1) {
        let Some(network) = network() else { return };
        let record = run(seed, seconds(), network);
        println!("seed {seed}, {:?}: {}", seconds(), record.summary());
    }
}

fn seconds() -> Duration {
    Duration::from_secs(env::var("NEKO_SCHEDULE_SECONDS").map_or(SECONDS, |text| text.parse().unwrap()))
}

fn run(seed: u64, lasts: Duration, network: Option<Wan>) -> Record {
    let (record, has_network) = (Record::new(), network.is_some());
    let world = World::start(network);
    (0..FILES.len()).for_each(|file| world.publish(file, seed, &record));
    let (ends_at, is_over) = (Instant::now() + lasts, AtomicBool::new(false));
    thread::scope(|scope| {
        for reader in 0..READERS.len() {
            let (world, record, is_over) = (&world, &record, &is_over);
            scope.spawn(move || {
                let _end = EndsAll(is_over);
                let mut rng = StdRng::seed_from_u64(seed ^ (reader as u64 + 1) << 32);
                while !is_over.load(Ordering::Relaxed) {
                    world.read(reader, &mut rng, record);
                }
            });
        }
        scope.spawn(|| {
            let _end = EndsAll(&is_over);
            let mut rng = StdRng::seed_from_u64(!seed);
            while !is_over.load(Ordering::Relaxed) {
                world.publish(rng.random_range(0..FILES.len()), rng.random(), &record);
                pause(rng.random_range(0..600));
            }
        });
        let _end = EndsAll(&is_over);
        for (fault, between) in faults(seed, has_network) {
            // Where the first fault cuts off the origin, nobody has a copy before that is over.
            let until = if record.is_tried() { ends_at } else { ends_at + TRIED_WITHIN };
            if Instant::now() > until || record.is_broken() {
                break;
            }
            world.disturb(fault, &record);
            thread::sleep(between);
        }
    });
    record.check(seed);
    record.note("all is well".to_owned());
    (0..FILES.len()).for_each(|file| world.publish(file, rand::random(), &record));
    world.wait_until_all_follow(seed, &record);
    record.check(seed);
    assert!(record.is_tried(), "seed {seed}: nothing was tried: {}", record.summary());
    record
}

/// Ends all threads when the first of them ends, also by a panic.
struct EndsAll<'a>(&'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

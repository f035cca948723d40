//! Runs the same work on many things, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads at most: beyond, waiting for memory and for the disk gains nothing.
const THREADS_MAX: usize = 16;

/// Threads to share work out to.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX))
}

/// What `work` gives for each of `things`, in their order. Blocking; a panic in it goes on here.
pub(crate) fn map<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if things.len() <= 1 {
        return things.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(index) else { return done };
            done.push((index, work(thing)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads().min(things.len())).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for helper in helpers {
            done.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_the_things() {
        for len in [0, 1, 2, 1000] {
            let things: Vec<usize> = (0..len).collect();
            let doubled: Vec<usize> = things.iter().map(|thing| thing * 2).collect();
            assert_eq!(super::map(&things, |thing| thing * 2), doubled);
        }
    }
}

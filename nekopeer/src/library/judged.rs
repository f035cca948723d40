//! [`Judged`]: names on whose version the command of a follower is running. Its exit code decides what stands there.

use std::collections::HashMap;

use nekoproto::FileName;
use parking_lot::Mutex;

/// How many commands are running on each name.
#[derive(Debug, Default)]
pub(crate) struct Judged(Mutex<HashMap<FileName, usize>>);

impl Judged {
    /// A command runs on `name` until the guard is dropped.
    pub(crate) fn begin(&self, name: &FileName) -> impl Drop + use<'_> {
        *self.0.lock().entry(name.clone()).or_default() += 1;
        scopeguard::guard(name.clone(), |name| {
            let mut running = self.0.lock();
            let left = running.get(&name).map_or(0, |count| count - 1);
            match left {
                0 => drop(running.remove(&name)),
                left => drop(running.insert(name, left)),
            }
        })
    }

    /// Whether one is running.
    pub(crate) fn has(&self, name: &FileName) -> bool {
        self.0.lock().contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_judged_until_the_last_command_has_ended() {
        let (judged, name) = (Judged::default(), FileName::new("a").unwrap());
        let (one, two) = (judged.begin(&name), judged.begin(&name));
        drop(one);
        assert!(judged.has(&name));
        drop(two);
        assert!(!judged.has(&name));
    }
}

//! Keeps on which names a command of a follower runs: what stands there is up to it.

use nekoproto::FileName;
use parking_lot::Mutex;

/// The names on which a command runs, once for each.
#[derive(Debug, Default)]
pub(crate) struct Judged(Mutex<Vec<FileName>>);

/// A command runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Judging<'a> {
    name: &'a FileName,
    among: &'a Judged,
}

impl Judged {
    /// A command begins to run on `name`.
    pub(crate) fn begin<'a>(&'a self, name: &'a FileName) -> Judging<'a> {
        self.0.lock().push(name.clone());
        Judging { name, among: self }
    }

    pub(crate) fn has(&self, name: &FileName) -> bool {
        self.0.lock().contains(name)
    }
}

impl Drop for Judging<'_> {
    fn drop(&mut self) {
        let mut names = self.among.0.lock();
        if let Some(at) = names.iter().position(|name| name == self.name) {
            names.swap_remove(at);
        }
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
        assert!(judged.has(&name) && !judged.has(&FileName::new("b").unwrap()));
        drop(two);
        assert!(!judged.has(&name));
    }
}

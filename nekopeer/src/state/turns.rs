//! Turns: how many things are done at once, and that no origin which does not answer takes them all.

use nekoproto::NodeId;

/// A bounded number of turns, each for one origin. A doubtful origin, which did not answer last, gets one turn at a
/// time, and all doubtful ones together get a part of the turns only, so that some are left for those that answer.
#[derive(Debug)]
pub(crate) struct Turns {
    limits: Limits,
    taken: Vec<(NodeId, bool)>,
}

/// Limits of [`Turns`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Turns in all.
    pub(crate) all: usize,
    /// Turns of doubtful origins.
    pub(crate) doubtful: usize,
    /// Turns of one origin.
    pub(crate) each: usize,
}

impl Turns {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self { limits, taken: Vec::new() }
    }

    /// Whether `origin` may take a turn now.
    pub(crate) fn may_take(&self, origin: &NodeId, is_doubtful: bool) -> bool {
        let each = if is_doubtful { 1 } else { self.limits.each };
        self.taken.len() < self.limits.all
            && self.taken.iter().filter(|(of, _)| of == origin).count() < each
            && (!is_doubtful
                || self.taken.iter().filter(|(_, doubtful)| *doubtful).count() < self.limits.doubtful)
    }

    /// Takes a turn, if `origin` may take one.
    pub(crate) fn take(&mut self, origin: NodeId, is_doubtful: bool) -> bool {
        let may = self.may_take(&origin, is_doubtful);
        if may {
            self.taken.push((origin, is_doubtful));
        }
        may
    }

    /// Gives a turn of `origin` back.
    pub(crate) fn give_back(&mut self, origin: &NodeId) {
        if let Some(at) = self.taken.iter().position(|(of, _)| of == origin) {
            self.taken.swap_remove(at);
        }
    }

    /// Whether `origin` has a turn.
    pub(crate) fn has(&self, origin: &NodeId) -> bool {
        self.taken.iter().any(|(of, _)| of == origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_that_do_not_answer_leave_turns_to_the_others() {
        let origin = |n: u8| NodeId::from_bytes([n; 32]);
        let mut turns = Turns::new(Limits { all: 4, doubtful: 2, each: 3 });
        assert!(turns.take(origin(1), true) && !turns.take(origin(1), true), "one turn at a time");
        assert!(turns.take(origin(2), true) && !turns.take(origin(3), true), "two turns in all");
        assert!(turns.take(origin(4), false) && turns.take(origin(4), false));
        assert!(!turns.take(origin(5), false), "all are taken");
        turns.give_back(&origin(1));
        assert!(!turns.has(&origin(1)) && turns.take(origin(3), true));
        let mut turns = Turns::new(Limits { all: 4, doubtful: 2, each: 3 });
        assert_eq!((0..4).filter(|_| turns.take(origin(1), false)).count(), 3, "one is left for others");
    }
}

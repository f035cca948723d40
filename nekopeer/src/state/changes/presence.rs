//! Whether a watched folder is there: one that was renamed, unmounted or deleted takes no file with it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FolderThere<I> {
    pub(crate) id: I,
    /// The number of its file system.
    pub(crate) disk: u64,
    pub(crate) is_empty: bool,
}

#[derive(Debug)]
pub(crate) struct Presence<I> {
    /// The identity of the folder that was seen last, and its file system.
    id: I,
    disk: u64,
    /// Another file system stood there since.
    was_unmounted: bool,
    is_here: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is there, as before.
    Here,
    /// It is not there, as before.
    Away,
    /// It vanished now: nothing in it is withdrawn.
    Vanished,
    /// The same folder is there again.
    Back,
    /// Another folder of the same file system stands there, as a build makes one anew: what is missing in it is gone.
    Replaced,
    /// A folder of another file system does: what is missing in it was not removed from it.
    Mounted,
}

impl<I: Copy + Eq> Presence<I> {
    pub(crate) const fn new(id: I, disk: u64) -> Self {
        Self { id, disk, was_unmounted: false, is_here: true }
    }

    /// Whether it was there when it was looked at last.
    pub(crate) const fn is_here(&self) -> bool {
        self.is_here
    }

    /// This folder stands at its path now, if any can be read. Another one that is empty may be a mount point without what
    /// belongs there.
    pub(crate) fn looked(&mut self, there: Option<FolderThere<I>>) -> Turn {
        let was_here = self.is_here;
        self.was_unmounted |= there.as_ref().is_some_and(|there| there.disk != self.disk);
        match there {
            Some(there) if there.id == self.id => {
                *self = Self::new(there.id, there.disk);
                if was_here { Turn::Here } else { Turn::Back }
            }
            Some(FolderThere { id, disk, is_empty: false }) => {
                let turn = if self.was_unmounted { Turn::Mounted } else { Turn::Replaced };
                *self = Self::new(id, disk);
                turn
            }
            _ => {
                self.is_here = false;
                if was_here { Turn::Vanished } else { Turn::Away }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_away_until_it_or_another_one_with_files_is_there() {
        let on = |disk, id, is_empty| Some(FolderThere { id, disk, is_empty });
        let folder = |id, is_empty| on(1, id, is_empty);
        let mut presence = Presence::new(1, 1);
        let turns = [
            (folder(1, true), Turn::Here),
            (None, Turn::Vanished),
            (None, Turn::Away),
            (folder(1, false), Turn::Back),
            (folder(2, true), Turn::Vanished),
            (folder(1, true), Turn::Back),
            (folder(2, false), Turn::Replaced),
            (folder(2, true), Turn::Here),
            (folder(1, false), Turn::Replaced),
            (on(2, 9, true), Turn::Vanished),
            (folder(1, false), Turn::Back),
            (folder(2, false), Turn::Replaced),
            (on(2, 9, true), Turn::Vanished),
            (None, Turn::Away),
            (folder(3, false), Turn::Mounted),
            (on(2, 4, false), Turn::Mounted),
            (on(2, 5, false), Turn::Replaced),
        ];
        for (step, (found, expected)) in turns.into_iter().enumerate() {
            assert_eq!(presence.looked(found), expected, "step {step}");
            assert_eq!(presence.is_here(), !matches!(expected, Turn::Vanished | Turn::Away), "step {step}");
        }
    }
}

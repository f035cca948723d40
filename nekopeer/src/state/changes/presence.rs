//! Whether a watched folder is there: one that was renamed, unmounted or deleted takes no file with it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FolderThere<I> {
    pub(crate) id: I,
    pub(crate) is_empty: bool,
}

#[derive(Debug)]
pub(crate) struct Presence<I> {
    /// The identity of the folder that was seen last.
    id: I,
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
    /// Another folder stands there: what is missing in it was not removed from it.
    Replaced,
}

impl<I: Copy + Eq> Presence<I> {
    /// The folder with this identity is there.
    pub(crate) const fn new(id: I) -> Self {
        Self { id, is_here: true }
    }

    /// Whether it was there when it was looked at last.
    pub(crate) const fn is_here(&self) -> bool {
        self.is_here
    }

    /// This folder stands at its path now, if any can be read. Another one that is empty may be a mount point without what
    /// belongs there.
    pub(crate) fn looked(&mut self, there: Option<FolderThere<I>>) -> Turn {
        let was_here = self.is_here;
        match there {
            Some(there) if there.id == self.id => {
                self.is_here = true;
                if was_here { Turn::Here } else { Turn::Back }
            }
            Some(FolderThere { id, is_empty: false }) => {
                *self = Self::new(id);
                Turn::Replaced
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
        let folder = |id, is_empty| Some(FolderThere { id, is_empty });
        let mut presence = Presence::new(1);
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
        ];
        for (step, (found, expected)) in turns.into_iter().enumerate() {
            assert_eq!(presence.looked(found), expected, "step {step}");
            assert_eq!(presence.is_here(), !matches!(expected, Turn::Vanished | Turn::Away), "step {step}");
        }
    }
}

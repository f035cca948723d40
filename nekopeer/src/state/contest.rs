//! What to do when the network knows another version of a file of this origin than this peer publishes: its
//! catalogue was lost, restored from an older copy, or is used twice.

use nekoproto::Record;

/// The version published here, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mine<'a> {
    pub record: &'a Record,
    /// A later version, published elsewhere, because of which this one is not offered any more.
    pub newest: Option<&'a Record>,
    /// No indexer has listed it, so that nobody else relies on its number.
    pub is_pending: bool,
}

/// Who publishes again where two files stand under one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// One of the two, which both agree on.
    First,
    /// The other one: this peer has published above it before.
    Later,
    /// This peer: it has waited in vain for the other.
    Now,
}

/// What to do about a record that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgment {
    /// Nothing: it is known, or older.
    Stands,
    /// It is the same file under a later number: take that number.
    Adopt,
    /// Publish the same file again under a number above it.
    Renumber,
    /// The other one is to be published again; look later whether it was.
    Wait,
    /// Another folder with this key has published a newer file: offer this one no more, and tell the user.
    Superseded,
}

impl Mine<'_> {
    /// What to do about `heard`, signed by this node. A number that nobody relies on changes at once. Where
    /// two files stand under one number, both folders may be alive and hear of each other, so that only one
    /// of them publishes again.
    pub(crate) fn judge(self, heard: &Record, turn: Turn) -> Judgment {
        let Self { record, newest, is_pending } = self;
        if !(heard.replaces(record) || heard.contradicts(record))
            || newest.is_some_and(|newest| !heard.replaces(newest))
        {
            return Judgment::Stands;
        }
        let is_same =
            |a: &Record, b: &Record| (a.content, a.manifest, a.policy) == (b.content, b.manifest, b.policy);
        if is_same(heard, record) {
            Judgment::Adopt
        } else if is_pending {
            Judgment::Renumber
        } else if heard.replaces(record) {
            Judgment::Superseded
        } else {
            match turn {
                Turn::Now => Judgment::Renumber,
                Turn::First if record.outranks(heard) => Judgment::Renumber, // both sides decide alike
                Turn::First | Turn::Later => Judgment::Wait,
            }
        }
    }
}

#[cfg(test)]
mod tests;

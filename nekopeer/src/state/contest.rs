//! What to do when the network knows another version of a file of this origin than this peer publishes: its
//! catalogue was lost, or restored from an older copy.

use nekoproto::Record;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mine<'a> {
    pub record: &'a Record,
    /// A later version, published elsewhere, because of which this one is not offered any more.
    pub newest: Option<&'a Record>,
    /// No indexer has listed it, so that nobody else relies on its number.
    pub is_pending: bool,
}

/// What to do about a record that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgment {
    /// It is the same file under a later number: take that number.
    Adopt,
    /// Publish the same file again under a number above it.
    Renumber,
    /// Another folder with this key has published a newer file, or one that ranks higher: offer this one no more, and tell
    /// the user.
    Superseded,
}

impl Mine<'_> {
    /// What to do about `heard`, signed by this node. A number that nobody relies on changes at once. Of two files under
    /// one number the one that ranks higher is published again, so that two folders do not outbid each other for ever.
    pub(crate) fn judge(self, heard: &Record) -> Option<Judgment> {
        let Self { record, newest, is_pending } = self;
        if !(heard.replaces(record) || heard.contradicts(record))
            || newest.is_some_and(|newest| !heard.replaces(newest))
        {
            return None; // it is known, or older
        }
        let is_same =
            |a: &Record, b: &Record| (a.content, a.manifest, a.policy) == (b.content, b.manifest, b.policy);
        Some(if is_same(heard, record) {
            Judgment::Adopt
        } else if is_pending || (heard.contradicts(record) && record.outranks(heard)) {
            Judgment::Renumber
        } else {
            Judgment::Superseded
        })
    }
}

#[cfg(test)]
mod tests;

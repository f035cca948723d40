//! Which version number a draft gets: pure.

use nekoproto::{ContentHash, ManifestHash, Policy, Record, VerifiedRecord, Version};

/// What a version consists of besides its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Substance {
    pub content: ContentHash,
    pub manifest: ManifestHash,
    pub policy: Policy,
}

/// What is known of the versions of one name of this origin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'a> {
    /// The last number taken here.
    pub counter: Option<Version>,
    /// What the catalogue that was lost may have given.
    pub floor: Option<Version>,
    /// The version published here.
    pub entry: Option<&'a VerifiedRecord>,
    /// A later one, published with this key elsewhere, of which the user was told.
    pub newest: Option<&'a VerifiedRecord>,
    /// The newest that the network was found to know, if it was asked.
    pub network: Option<&'a VerifiedRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered<'a> {
    /// A version that this key published already, here or elsewhere.
    Old(&'a VerifiedRecord),
    New(Version),
    UsedUp,
}

impl Substance {
    pub(crate) const fn of(record: &Record) -> Self {
        Self { content: record.content, manifest: record.manifest, policy: record.policy }
    }
}

impl<'a> Known<'a> {
    /// What a draft of this substance becomes. Its number is larger than every known one, unless exactly this
    /// was published before.
    ///
    /// A draft that changes nothing here stays the version it is although the network knows a newer one: an
    /// old backup, started, does not replace what was published since. Once the user was told of that, it
    /// does.
    pub(crate) fn number(self, draft: Substance) -> Numbered<'a> {
        let seen = [self.newest, self.network].into_iter().flatten().max_by_key(|record| record.version);
        let is_later = |record: &&VerifiedRecord| self.counter.is_none_or(|counter| record.version > counter);
        if let Some(same) = seen.filter(|seen| Substance::of(seen) == draft).filter(is_later) {
            return Numbered::Old(same);
        }
        let unchanged = self.entry.filter(|entry| {
            Substance::of(entry) == draft
                && Some(entry.version) == self.counter // otherwise a number was taken since
                && !self.network.is_some_and(|network| network.contradicts(entry))
        });
        if let Some(unchanged) = unchanged.filter(|_| self.newest.is_none()) {
            return Numbered::Old(unchanged);
        }
        let published = self.entry.into_iter().chain(seen).map(|record| record.version);
        let last = self.counter.max(self.floor).max(published.max());
        match last.map_or(Some(Version::FIRST), Version::next) {
            Some(version) => Numbered::New(version),
            None => Numbered::UsedUp,
        }
    }
}

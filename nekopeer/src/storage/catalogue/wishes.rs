//! What the reader of this data folder wants of single names, where that differs from what the process was started with.

use std::time::Duration;

use nekoproto::{FileName, codec};
use redb::{ReadableTable, ReadableTableMetadata};
use serde::{Deserialize, Serialize};

use super::{Catalogue, CatalogueError, schema::WISHES};
use crate::state::freshness::OnStale;

/// Names with wishes at most.
const WISHES_MAX: u64 = 100_000;

/// What the reader wants of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// Seconds that a confirmation counts at most; the policy of the origin may be stricter.
    pub(crate) bound_secs: Option<u32>,
    /// What is done with an outdated copy.
    pub(crate) on_stale: Option<OnStale>,
}

impl Wish {
    /// The stricter of this bound and the reader's for all names.
    pub(crate) fn bound(&self, of_all: Option<Duration>) -> Option<Duration> {
        let bound = self.bound_secs.map(|secs| Duration::from_secs(secs.into()));
        bound.into_iter().chain(of_all).min()
    }
}

impl Catalogue {
    /// What the reader wants of `name`.
    pub(crate) fn wish(&self, name: &FileName) -> Result<Wish, CatalogueError> {
        let decode = |row: &[u8]| codec::decode(row).unwrap_or_default(); // was stored here
        Ok(self.tables.value(WISHES, name.as_str(), decode)?.unwrap_or_default())
    }

    /// Changes what the reader wants of `name`; returns what is wanted now. Blocking.
    pub(crate) fn change_wish(
        &self,
        name: &FileName,
        change: impl FnOnce(&mut Wish),
    ) -> Result<Wish, CatalogueError> {
        let write = self.tables.begin()?;
        let mut wish = self.wish(name)?;
        change(&mut wish);
        let row = codec::encode(&wish).unwrap_or_default(); // some ten bytes
        let has_room = write.with(WISHES, |table| {
            if wish == Wish::default() {
                table.remove(name.as_str())?;
                return Ok(true);
            }
            let has_room = table.len()? < WISHES_MAX || table.get(name.as_str())?.is_some();
            if has_room {
                table.insert(name.as_str(), row.as_slice())?;
            }
            Ok(has_room)
        })?;
        if !has_room {
            return Err(CatalogueError::TooManyWishes { max: WISHES_MAX });
        }
        self.tables.commit(write)?;
        Ok(wish)
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    #[test]
    fn a_wish_outlives_the_process_until_it_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let (name, other) = (FileName::new("a").unwrap(), FileName::new("b").unwrap());
        let open = || Catalogue::open(dir.path(), Identity::from_seed(&[9; 32])).unwrap();
        assert_eq!(open().wish(&name).unwrap(), Wish::default());
        open().change_wish(&name, |wish| wish.bound_secs = Some(5)).unwrap();
        open().change_wish(&name, |wish| wish.on_stale = Some(OnStale::Drop)).unwrap();
        assert_eq!(open().wish(&name).unwrap(), Wish { bound_secs: Some(5), on_stale: Some(OnStale::Drop) });
        assert_eq!(open().wish(&other).unwrap(), Wish::default());
        open().change_wish(&name, |wish| *wish = Wish::default()).unwrap();
        assert_eq!(open().wish(&name).unwrap(), Wish::default());
    }

    #[test]
    fn the_stricter_bound_counts() {
        let secs = |secs| Some(Duration::from_secs(secs));
        let wish = Wish { bound_secs: Some(5), on_stale: None };
        assert_eq!([None, secs(3), secs(9)].map(|all| wish.bound(all)), [secs(5), secs(3), secs(5)]);
        assert_eq!([None, secs(3)].map(|all| Wish::default().bound(all)), [None, secs(3)]);
    }
}

//! Whose file was chosen where several origins publish different ones under a name.

use nekoproto::{FileName, NodeId};

use super::{Catalogue, CatalogueError, schema::CHOSEN};

impl Catalogue {
    /// The origin that was chosen for `name`.
    pub(crate) fn chosen(&self, name: &FileName) -> Result<Option<NodeId>, CatalogueError> {
        Ok(self.tables.chosen(name.as_str())?.map(NodeId::from_bytes))
    }

    /// Remembers these choices in place of earlier ones; with `None` a choice is forgotten. Blocking.
    pub(crate) fn note_chosen(&self, choices: &[(FileName, Option<NodeId>)]) -> Result<(), CatalogueError> {
        let mut changed = Vec::with_capacity(choices.len());
        for choice @ (name, chosen) in choices {
            if self.chosen(name)? != *chosen {
                changed.push(choice);
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let write = self.tables.begin()?;
        write.with(CHOSEN, |table| {
            changed.iter().try_for_each(|(name, chosen)| match chosen {
                Some(origin) => table.insert(name.as_str(), origin.as_bytes()).map(drop),
                None => table.remove(name.as_str()).map(drop),
            })
        })?;
        self.tables.commit(write)
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    #[test]
    fn a_choice_outlives_the_process_until_another_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let (name, other) = (FileName::new("a").unwrap(), FileName::new("b").unwrap());
        let node = |n| Identity::from_seed(&[n; 32]).id();
        let open = || Catalogue::open(dir.path(), Identity::from_seed(&[9; 32])).unwrap();
        assert_eq!(open().chosen(&name).unwrap(), None);
        for chosen in [Some(node(1)), Some(node(2)), None, Some(node(3))] {
            open().note_chosen(&[(name.clone(), chosen)]).unwrap();
            assert_eq!(open().chosen(&name).unwrap(), chosen);
        }
        assert_eq!(open().chosen(&other).unwrap(), None);
    }
}

//! The readers that this origin heard in the last days.

use nekoproto::{FileName, NodeId};

use super::{Catalogue, or_report, schema::HEARD};
use crate::{failure::Failure, state::readers::Heard};

impl Catalogue {
    /// Those that are stored; what is damaged is left out. Blocking.
    pub(crate) fn heard(&self) -> Heard {
        let heard = self.tables.rows(HEARD, .., usize::MAX, |(name, node), known| {
            Some(((FileName::new(name).ok()?, NodeId::from_bytes(*node)), known.value()?))
        });
        or_report(heard, "it is not known who read files here before").into_iter().collect()
    }

    /// Stores these in place of those before. Blocking.
    pub(crate) fn set_heard(&self, heard: &Heard) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        write.with(HEARD, |table| table.retain(|_, _| false))?;
        let rows = heard.iter().map(|((name, node), known)| ((name.as_str(), node.as_bytes()), Some(*known)));
        write.put(HEARD, rows)?;
        self.tables.commit(write)
    }
}

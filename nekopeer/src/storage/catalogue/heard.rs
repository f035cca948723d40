//! The readers that this origin heard in the last days.

use nekoproto::{FileName, NodeId};

use super::{
    Catalogue, or_report,
    schema::{HEARD, LABELS},
};
use crate::{
    failure::Failure,
    state::readers::{Heard, Labels},
};

impl Catalogue {
    /// Those that are stored; what is damaged is left out. Blocking.
    pub(crate) fn heard(&self) -> (Heard, Labels) {
        let heard = self.tables.rows(HEARD, .., usize::MAX, |(name, node), known| {
            Some(((FileName::new(name).ok()?, NodeId::from_bytes(*node)), known.value()?))
        });
        let labels = self
            .tables
            .rows(LABELS, .., usize::MAX, |node, label| Some((NodeId::from_bytes(*node), label.value()?)));
        let why = "it is not known who read files here before";
        (or_report(heard, why).into_iter().collect(), or_report(labels, why).into_iter().collect())
    }

    /// Stores these in place of those before. Blocking.
    pub(crate) fn set_heard(&self, heard: &Heard, labels: &Labels) -> Result<(), Failure> {
        let write = self.tables.begin()?;
        write.with(HEARD, |table| table.retain(|_, _| false))?;
        let rows = heard.iter().map(|((name, node), known)| ((name.as_str(), node.as_bytes()), Some(*known)));
        write.put(HEARD, rows)?;
        write.with(LABELS, |table| table.retain(|_, _| false))?;
        write.put(LABELS, labels.iter().map(|(node, label)| (node.as_bytes(), Some(label.clone()))))?;
        self.tables.commit(write)
    }
}

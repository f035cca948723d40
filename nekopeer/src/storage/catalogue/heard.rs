//! The readers that this origin heard in the last days.

use nekoproto::{FileName, NodeId, codec};

use super::{Catalogue, CatalogueError, schema::HEARD};
use crate::state::readers::Heard;

impl Catalogue {
    /// Those that are stored; what is damaged is left out. Blocking.
    pub(crate) fn heard(&self) -> Heard {
        let heard = self.tables.read(|committed| {
            let mut heard = Heard::new();
            for row in committed.table(HEARD)?.range::<(&str, &[u8; 32])>(..)? {
                let (key, row) = row?;
                let (name, node) = key.value();
                let known = FileName::new(name).ok().zip(codec::decode(row.value()).ok());
                heard.extend(known.map(|(name, known)| ((name, NodeId::from_bytes(*node)), known)));
            }
            Ok(heard)
        });
        heard.unwrap_or_else(|error| {
            tracing::warn!(%error, "it is not known who read files here before");
            Heard::new()
        })
    }

    /// Stores these in place of those before. Blocking.
    pub(crate) fn set_heard(&self, heard: &Heard) -> Result<(), CatalogueError> {
        let write = self.tables.begin()?;
        write.with(HEARD, |table| {
            table.retain(|_, _| false)?;
            heard.iter().try_for_each(|((name, node), known)| {
                let row = codec::encode(known).unwrap_or_default(); // some numbers
                table.insert((name.as_str(), node.as_bytes()), row.as_slice()).map(drop)
            })
        })?;
        self.tables.commit(write)
    }
}

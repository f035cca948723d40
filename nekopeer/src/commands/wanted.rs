//! [`Wanted`]: which of several files under one name, and who is asked for it.

use nekoproto::{FileName, IndexerAddr, Ticket, Version};
use serde::{Deserialize, Serialize};

use crate::{indexers::via::VIA_MAX, storage::remembered::Home};

/// Which of several files under one name, how far it is looked for, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// The first digits of the origin's id, or `any`; for names that `named` does not have.
    pub(crate) origin: Option<String>,
    /// Hops beyond the own indexers.
    pub(crate) ttl_hops: u8,
    /// Indexers that are asked besides the own ones.
    pub(crate) via: Vec<IndexerAddr>,
    /// What is known of single names.
    pub(crate) named: Vec<Named>,
    /// What a peer has to belong to, to find the tickets' files.
    pub(crate) home: Option<Home>,
}

/// What is known of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    /// The name.
    pub(crate) name: FileName,
    /// The first digits of the origin's id.
    pub(crate) origin: String,
    /// A version that was published.
    pub(crate) version: Option<Version>,
}

impl Wanted {
    /// The usual for all names.
    pub(crate) fn new(origin: Option<String>, ttl_hops: u8) -> Self {
        Self { origin, ttl_hops, ..Self::default() }
    }

    /// Wants the file of a ticket too; its name is to be among those of the command.
    ///
    /// # Errors
    /// It cannot be fetched together with the others, for this reason.
    pub(crate) fn add(&mut self, ticket: &Ticket) -> Result<(), &'static str> {
        let home = Home { network: ticket.network.clone(), insecure: ticket.insecure };
        if self.home.get_or_insert_with(|| home.clone()) != &home {
            return Err("the tickets are for different networks: give them one after the other");
        }
        for indexer in ticket.indexers.iter() {
            if !self.via.contains(indexer) && self.via.len() < VIA_MAX {
                self.via.push(*indexer);
            }
        }
        self.choose(Named {
            name: ticket.name.clone(),
            origin: ticket.origin.to_string(),
            version: ticket.version,
        })
    }

    /// Wants the file of one origin under a name.
    ///
    /// # Errors
    /// The file of another origin under this name is wanted already.
    pub(crate) fn choose(&mut self, named: Named) -> Result<(), &'static str> {
        match self.named.iter_mut().find(|known| known.name == named.name) {
            Some(known) if known.origin != named.origin => {
                Err("files of two origins under one name have one place: fetch one with -o PATH")
            }
            Some(known) => {
                known.version = known.version.max(named.version);
                Ok(())
            }
            None => {
                self.named.push(named);
                Ok(())
            }
        }
    }

    /// What is known of `name`.
    pub(crate) fn of(&self, name: &FileName) -> Option<&Named> {
        self.named.iter().find(|named| named.name == *name)
    }

    /// Whether all of these names came by tickets, so that the own indexers are not needed.
    pub(crate) fn is_by_ticket(&self, names: &[FileName]) -> bool {
        !self.via.is_empty() && names.iter().all(|name| self.of(name).is_some())
    }
}

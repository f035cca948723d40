//! [`Wanted`]: which of several files under one name, and who is asked for it.

use std::collections::{BTreeMap, btree_map::Entry};

use nekoproto::{FileName, IndexerAddr, Ticket, Version};

use super::{Word, split};
use crate::{indexers::via::VIA_MAX, storage::remembered::Home};

/// What a ticket without a version names if it is for all files of its origin, as a glob that matches each name.
pub(in crate::api) const ALL: &str = "**";

/// Which of several files under one name, how far it is looked for, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The first digits of the origin's id; for names that `named` does not have.
    pub(crate) origin: Option<String>,
    /// Of a single file this version instead of the newest.
    pub(crate) version: Option<Version>,
    /// Hops beyond the own indexers.
    pub(crate) ttl_hops: u8,
    /// Indexers that are asked besides the own ones.
    pub(crate) via: Vec<IndexerAddr>,
    pub(crate) named: BTreeMap<FileName, Named>,
    pub(crate) patterns: Vec<Pattern>,
    /// Whether all names came by tickets, so that the own indexers are not needed.
    pub(crate) is_by_ticket: bool,
    /// What a peer has to belong to, to find the tickets' files.
    pub(crate) home: Option<Home>,
}

/// A folder (`NAME/`) or a glob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    /// The first digits of the origin's id: of a ticket that of all its files.
    pub(crate) origin: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) origin: String,
    pub(crate) version: Option<Version>,
}

impl Pattern {
    /// All files that a ticket without a version is for.
    pub(super) fn of_ticket(ticket: &Ticket) -> Self {
        let name = ticket.name.as_str();
        let text = if name == ALL { ALL.to_owned() } else { format!("{name}/") };
        Self { text, origin: Some(ticket.origin.to_string()) }
    }
}

impl Wanted {
    pub(crate) fn new(origin: Option<String>, ttl_hops: u8) -> Self {
        Self { origin, ttl_hops, ..Self::default() }
    }

    /// The names that `words` mean, and what is known of these. With an `origin`, no word ends with another.
    pub(crate) fn of_words(
        words: &[Word],
        origin: Option<String>,
        ttl_hops: u8,
    ) -> Result<(Vec<FileName>, Self), String> {
        let mut wanted = Self::new(origin, ttl_hops);
        let mut names = Vec::with_capacity(words.len());
        for word in words {
            match word {
                Word::Name(name) if wanted.origin.is_some() => names.push(name.clone()),
                Word::Name(whole) => {
                    let (name, origin) = split(whole);
                    if let Some(origin) = origin {
                        wanted.choose(name.clone(), Named { origin, version: None })?;
                    }
                    names.push(name);
                }
                Word::Ticket(ticket) => {
                    wanted.add(ticket)?;
                    names.extend(ticket.version.map(|_| ticket.name.clone()));
                }
                Word::Pattern(text) => {
                    let origin = wanted.origin.clone();
                    wanted.patterns.push(Pattern { text: text.clone(), origin });
                }
                Word::Wrong(why) => return Err(why.clone()),
            }
        }
        wanted.is_by_ticket = words.iter().all(|word| matches!(word, Word::Ticket(_)));
        Ok((names, wanted))
    }

    /// Wants the file of a ticket too, whose name is to be among those of the command; or all files of a folder, which a ticket
    /// without a version is for.
    fn add(&mut self, ticket: &Ticket) -> Result<(), &'static str> {
        let home = Home { network: ticket.network.clone(), insecure: ticket.insecure };
        if self.home.get_or_insert_with(|| home.clone()) != &home {
            return Err("the tickets are for different networks: give them one after the other");
        }
        for indexer in ticket.indexers.iter() {
            if !self.via.contains(indexer) && self.via.len() < VIA_MAX {
                self.via.push(*indexer);
            }
        }
        if ticket.version.is_none() {
            self.patterns.push(Pattern::of_ticket(ticket));
            return Ok(());
        }
        let named = Named { origin: ticket.origin.to_string(), version: ticket.version };
        self.choose(ticket.name.clone(), named)
    }

    pub(crate) fn choose(&mut self, name: FileName, named: Named) -> Result<(), &'static str> {
        match self.named.entry(name) {
            Entry::Occupied(known) if known.get().origin != named.origin => {
                Err("files of two origins under one name have one place: fetch one with -o PATH")
            }
            Entry::Occupied(mut known) => {
                let version = known.get().version.max(named.version);
                known.get_mut().version = version;
                Ok(())
            }
            Entry::Vacant(free) => {
                free.insert(named);
                Ok(())
            }
        }
    }

    pub(crate) const fn are_many(&self, names: &[FileName]) -> bool {
        names.len() != 1 || !self.patterns.is_empty()
    }

    pub(crate) fn by_ticket(self) -> Option<(Home, Vec<IndexerAddr>)> {
        Some((self.home?, self.via))
    }

    pub(crate) fn of(&self, name: &FileName) -> Option<&Named> {
        self.named.get(name)
    }
}

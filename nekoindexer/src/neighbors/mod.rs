//! The neighbors: which are connected ([`links`]), which are stuck ([`load`]), what is advertised to
//! them (`advertise`) and how much of it each has acknowledged (`acknowledged`).

mod acknowledged;
mod advertise;
pub mod links;
pub mod load;

use std::time::Instant;

use nekoproto::{NodeTag, summary::SummaryUpdate};
use tokio::sync::watch;

use self::{acknowledged::Acknowledged, links::Links};
use crate::state::{
    State,
    summary::{RELAYED_HOPS, TheirSummary, Took},
};

/// The neighbors of one indexer.
#[derive(Debug)]
pub(crate) struct Neighborhood {
    /// The indexer itself.
    me: NodeTag,
    pub(crate) links: Links,
    pub(crate) acknowledged: Acknowledged,
    /// Wakes the tasks that advertise our own summary.
    own_news: watch::Sender<()>,
    /// Wakes the tasks that pass on the summaries of others.
    others_news: watch::Sender<()>,
}

impl Neighborhood {
    /// `configured` neighbors, none of them connected yet.
    pub(crate) fn new(me: NodeTag, configured: usize) -> Self {
        let [own_news, others_news] = [(); 2].map(watch::Sender::new);
        let (links, acknowledged) = (Links::new(configured), Acknowledged::default());
        Self { me, links, acknowledged, own_news, others_news }
    }

    /// Our summary has changed: advertises it to all neighbors.
    pub(crate) fn own_changed(&self) {
        self.own_news.send_replace(());
    }

    /// Neighbors came or went: what they advertised is judged by whom we ask now, and they are told.
    pub(crate) fn changed(&self, state: &State) {
        state.their_summaries.iter_mut().for_each(|mut theirs| self.enclose(&mut theirs));
        state.own_summary().neighbors_changed();
        self.own_changed();
    }

    /// Takes an update from the neighbor `from`; false if its whole summary is needed.
    pub(crate) fn hear(&self, state: &State, from: NodeTag, mut update: SummaryUpdate) -> bool {
        let neighbors = self.links.current();
        if !neighbors.tags.contains(&from) {
            return false; // not connected yet, or beyond the limit of neighbors
        }
        if update.hops == 0 {
            update.of = from;
        } else if update.of == from || update.of == self.me {
            return true; // that node advertises its summary itself
        }
        let hears_of_it =
            |other: &NodeTag| *other == from || *other == update.of || update.neighbors.contains(other);
        let is_passed_on = update.hops < RELAYED_HOPS && !neighbors.tags.iter().all(hears_of_it);
        let took = {
            let mut theirs = state.their_summaries.entry(from).or_default();
            let took = theirs.take(update, Instant::now());
            if took == Took::News {
                self.enclose(&mut theirs);
            }
            took
        };
        if took == Took::News && is_passed_on {
            self.others_news.send_replace(());
        }
        took != Took::Gap
    }

    /// Notes whether a neighbor's neighbors are all ours. `theirs` is locked while the neighbors are read,
    /// so that the latest change of either is noted last.
    fn enclose(&self, theirs: &mut TheirSummary) {
        let neighbors = self.links.current();
        theirs.enclose(|other| *other == self.me || neighbors.tags.contains(other));
    }
}

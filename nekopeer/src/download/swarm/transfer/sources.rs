//! The sources of a download: where they are, what they have, which fail, and the connections to them.

use std::{net::SocketAddr, ops::Range, sync::atomic::Ordering};

use nekoproto::{Holder, NodeId, transport::HangUp};
use tracing::debug;

use super::{Transfer, TransferState};
use crate::{
    content::bitfield::Bitfield,
    download::swarm::source::{FetchError, Source},
    state::schedule::{Availability, StreamId},
};

/// Addresses of one source that are tried in one download.
const ADDRS_MAX: usize = 16;

impl Transfer {
    pub(in crate::download::swarm) fn offers(&self, holder: &Holder) {
        let chunks = self.assembly.manifest().chunks().len();
        let offer = if holder.partial {
            Availability::Some(Bitfield::with_capacity(chunks))
        } else {
            Availability::All
        };
        let mut state = self.state.lock();
        state.addrs.entry(holder.node).or_default().push(holder.addr);
        state.schedule.offers(holder.node, offer);
        if state.refused.remove(&holder.node) {
            state.schedule.forgive(|source| source == holder.node);
        }
    }

    pub(in crate::download::swarm) fn offers_now(&self, node: NodeId, offer: Availability) {
        self.state.lock().schedule.offers(node, offer);
        self.changed.notify_all();
    }

    /// Number of sources that are still downloading.
    pub(in crate::download::swarm) fn partial_sources(&self) -> u32 {
        self.state.lock().schedule.partial_sources()
    }

    pub(in crate::download::swarm) fn is_banned(&self, node: NodeId) -> bool {
        self.state.lock().report.corrupt_sources.contains(&node)
    }

    /// Allows sources that failed to be asked again. Corrupt sources stay banned.
    pub(in crate::download::swarm) fn forgive(&self) {
        let mut state = self.state.lock();
        let TransferState { schedule, report, .. } = &mut *state;
        schedule.forgive(|source| !report.corrupt_sources.contains(&source));
    }

    /// Notes a further address of a source that is known.
    pub(in crate::download::swarm) fn is_also_at(&self, holder: &Holder) {
        let mut state = self.state.lock();
        let addrs = state.addrs.entry(holder.node).or_default();
        if !addrs.contains(&holder.addr) && addrs.len() < ADDRS_MAX {
            addrs.push(holder.addr);
            state.has_elsewhere = true;
        }
    }

    /// Closes the connections, none of which brings anything, to sources that are named at another address by now, or all
    /// if this machine `has_moved`: they are connected to anew.
    pub(in crate::download::swarm) fn leave_stale(&self, has_moved: bool) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.has_elsewhere) || has_moved {
            std::mem::take(&mut state.open).values().for_each(HangUp::now);
        }
    }

    /// Another address of `holder`, which does not answer where it was `tried`.
    pub(in crate::download::swarm) fn elsewhere(
        &self,
        holder: &Holder,
        tried: &[SocketAddr],
    ) -> Option<Holder> {
        let state = self.state.lock();
        let addr = state.addrs.get(&holder.node)?.iter().rfind(|addr| !tried.contains(addr))?;
        Some(Holder { addr: *addr, ..*holder })
    }

    /// Records a source's failure; returns whether to ask it no more.
    pub(in crate::download::swarm) fn source_failed(&self, holder: &Holder, error: &FetchError) -> bool {
        debug!(source = %holder.node.short(), %error, "a source failed");
        let struck_out = {
            let mut state = self.state.lock();
            let why = || format!("source {} at {}: {error}", holder.node.short(), holder.addr);
            let is_origins = holder.node == self.record.origin;
            let report = &mut state.report;
            // An address is left alone because of what failed before: that tells more.
            let tells_more = !error.follows_from_others() && (is_origins || !report.is_origins_failure);
            if report.last_failure.is_none() || tells_more {
                (report.last_failure, report.is_origins_failure) = (Some(why()), is_origins);
            }
            if error.is_corrupt() {
                state.report.corrupt_sources.insert(holder.node);
            }
            if error.is_final() {
                state.schedule.ban(holder.node);
                if let FetchError::Refused(_) = error {
                    state.refused.insert(holder.node);
                }
            }
            // A busy source is dropped without a strike; a later search finds it again.
            error.is_final() || error.is_busy() || state.schedule.strike(holder.node)
        };
        self.changed.notify_all();
        struck_out
    }

    /// Registers an open connection to `node`; `None` if the download has ended, or is paused.
    pub(in crate::download::swarm) fn opened(&self, node: NodeId, source: &Source) -> Option<StreamId> {
        let stream = self.streams.fetch_add(1, Ordering::Relaxed);
        let now = self.now();
        let mut state = self.state.lock();
        if state.ended || state.suspended {
            return None;
        }
        state.schedule.opened(stream, node, source.round_trips(), now);
        state.open.insert(stream, source.hang_up());
        Some(stream)
    }

    /// The source, which asks for patience, refused these chunks: they are leased to others, or asked for later.
    pub(in crate::download::swarm) fn refused(&self, stream: StreamId, run: Range<usize>) {
        let now = self.now();
        let mut state = self.state.lock();
        state.silence.asked_for_patience(now);
        state.schedule.refused(stream, run);
        drop(state);
        self.changed.notify_all();
    }

    /// Forgets a connection. Whether this side did not close it before, as it does at the end of the download, or to connect anew.
    pub(in crate::download::swarm) fn closed(&self, stream: StreamId) -> bool {
        let was_open = {
            let mut state = self.state.lock();
            state.schedule.closed(stream);
            state.open.remove(&stream).is_some()
        };
        self.changed.notify_all();
        was_open
    }
}

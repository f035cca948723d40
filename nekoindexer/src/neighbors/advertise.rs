//! Advertises summaries over one connection: what is new as one message for all of it, at once; and that nothing is
//! new as one heartbeat, for which all connections of this node wake up together.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use nekoproto::{
    IndexerServiceClient, NodeTag, Refusal, clock,
    summary::{SummaryNews, What},
    transport::call_within,
};
use tokio::time::{Instant as TokioInstant, sleep, sleep_until};
use tracing::debug;

use super::{Neighborhood, channel::Channel, neighbor::Neighbors};
use crate::state::{
    State,
    summary::{Position, TRUSTED_FOR, Told, Took},
};

/// How often the end that opened a connection says that nothing is new; the answer says so of the other end.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(1200);
/// Time for a neighbor to acknowledge a message.
const ACKNOWLEDGED_WITHIN: Duration = TRUSTED_FOR;
/// The same for a message with whole filters: over a slow link it takes longer, and nothing depends on when it arrives.
const FILTERS_WITHIN: Duration = Duration::from_secs(20);
/// Pause before a retry when a neighbor did not acknowledge; it doubles up to [`HEARTBEAT_EVERY`].
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// The longest pause where the neighbor refuses: it has no room for us, and each time is told everything.
const RETRY_REFUSED_MAX: Duration = Duration::from_secs(30);
/// News of others are gathered for this long before they are passed on.
const RELAYED_AFTER: Duration = Duration::from_millis(10);
/// News of our links are gathered for this long: by then a node that joins has told who its neighbors are.
const LINKS_AFTER: Duration = Duration::from_millis(250);
/// The same over a connection that has just begun.
const LINKS_AFTER_YOUNG: Duration = Duration::from_millis(20);
/// The end that only answers heartbeats counts from the one before: it is told something two heartbeats old.
const _: () = assert!(2 * HEARTBEAT_EVERY.as_millis() + 500 < TRUSTED_FOR.as_millis());

/// What a message did not bring about; the neighbor is told everything anew.
struct NotAcknowledged {
    /// The longest pause before that.
    pause_max: Duration,
}

/// Why it is time to look for something to tell.
#[derive(Clone, Copy, Debug, Default)]
struct Cause {
    /// A heartbeat is due.
    is_tick: bool,
    /// Our links changed a while ago.
    links: bool,
}

impl Neighborhood {
    /// Advertises over `channel` our names and those of others that do not advertise to the neighbor themselves.
    /// Never ends.
    ///
    /// # Cancel safety
    /// Safe, but the channel cannot be used for another connection.
    pub(crate) async fn advertise(
        &self,
        state: &State,
        channel: &Arc<Channel>,
        neighbor: &IndexerServiceClient,
    ) {
        channel.is_to_be_told().await;
        let _open = self.acknowledged.add(channel);
        let mut own = self.own_news.subscribe();
        let mut links = self.links_news.subscribe();
        let mut relays = self.relays_news.subscribe();
        let mut links_at = None;
        let mut tick = self.next_tick(TokioInstant::now());
        let (mut cause, mut failures) = (Cause::default(), 0);
        loop {
            own.mark_unchanged(); // all of it is told now
            relays.mark_unchanged();
            let mut relays_at = None;
            match self.tell(state, channel, neighbor, cause).await {
                Ok(()) => failures = 0,
                Err(NotAcknowledged { pause_max }) => {
                    channel.told.lock().begin_anew();
                    sleep(RETRY_AFTER.saturating_mul(1 << failures).min(pause_max)).await;
                    failures = (failures + 1).min(10);
                    continue;
                }
            }
            loop {
                let due = [links_at, relays_at].into_iter().flatten().fold(tick, TokioInstant::min);
                tokio::select! {
                    biased;
                    // The senders live in `self`.
                    _ = own.changed() => break,
                    _ = relays.changed(), if relays_at.is_none() => {
                        relays_at = Some(TokioInstant::now() + RELAYED_AFTER);
                    }
                    _ = links.changed(), if links_at.is_none() => {
                        let now = TokioInstant::now();
                        let is_young = channel.is_young(clock::now());
                        links_at = Some(now + if is_young { LINKS_AFTER_YOUNG } else { LINKS_AFTER });
                    }
                    () = sleep_until(due) => break,
                }
            }
            let now = TokioInstant::now();
            cause = Cause { is_tick: now >= tick, links: links_at.is_some_and(|at| now >= at) };
            if cause.is_tick {
                tick = self.next_tick(now);
            }
            if cause.is_tick || cause.links {
                links.mark_unchanged();
                links_at = None;
            }
        }
    }

    /// The next time at which this node sends heartbeats over all its connections.
    fn next_tick(&self, now: TokioInstant) -> TokioInstant {
        let since = now.into_std().saturating_duration_since(self.began).as_millis();
        let left = HEARTBEAT_EVERY.as_millis() - since % HEARTBEAT_EVERY.as_millis();
        now + Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// Tells what is new; if nothing is, sends the heartbeat that is due.
    async fn tell(
        &self,
        state: &State,
        channel: &Channel,
        neighbor: &IndexerServiceClient,
        cause: Cause,
    ) -> Result<(), NotAcknowledged> {
        let mut is_heartbeat_due = cause.is_tick && channel.leads;
        loop {
            // Before it is looked at what is new: a registration that is missing there waits for whoever was heard by
            // now, so the neighbor must not count from a later moment.
            let echo_ms = channel.progress.lock().their_clock_ms;
            let (mut message, acknowledges) = self.next(state, channel, cause);
            if message.is_none() && is_heartbeat_due {
                message = Some(channel.told.lock().heartbeat());
            }
            let is_undated = message.is_some() && echo_ms == 0;
            while let Some(next) = message {
                self.send(channel, neighbor, SummaryNews { echo_ms, ..next }).await?;
                message = channel.told.lock().next_message();
            }
            let before = {
                let mut progress = channel.progress.lock();
                progress.is_given_up = false;
                progress.acknowledged.replace(acknowledges)
            };
            if before != Some(acknowledges) {
                channel.acknowledged.notify_waiters();
                self.acknowledged.changed();
            }
            // It counts only with a time stamp of theirs, which has come with the answer.
            is_heartbeat_due = is_undated && channel.progress.lock().their_clock_ms != 0;
            if !is_heartbeat_due {
                return Ok(());
            }
        }
    }

    /// Sends one message and takes its answer.
    async fn send(
        &self,
        channel: &Channel,
        neighbor: &IndexerServiceClient,
        message: SummaryNews,
    ) -> Result<(), NotAcknowledged> {
        let asked = clock::now();
        let has_filters = message.changes.iter().any(|change| matches!(change.what, What::Whole { .. }));
        let within = if has_filters { FILTERS_WITHIN } else { ACKNOWLEDGED_WITHIN };
        channel.progress.lock().keeps_nothing = false; // from now on it may have taken in all of it
        let answer = neighbor.summarize(call_within(within), message).await;
        let reply = match answer {
            Ok(Ok(reply)) => reply,
            Ok(Err(refusal)) => {
                debug!(%refusal, "a neighbor refused a summary");
                if refusal == Refusal::NoRoom {
                    channel.progress.lock().keeps_nothing = true;
                    channel.acknowledged.notify_waiters(); // registrations need not wait for it
                }
                return Err(NotAcknowledged { pause_max: RETRY_REFUSED_MAX });
            }
            Err(error) => {
                debug!(%error, "a neighbor did not acknowledge a summary");
                return Err(NotAcknowledged { pause_max: HEARTBEAT_EVERY });
            }
        };
        let now = clock::now();
        {
            let mut progress = channel.progress.lock();
            progress.heard = Some(now);
            progress.their_clock_ms = reply.clock_ms;
        }
        self.update(channel, now, |theirs| {
            theirs.confirm(reply.confirms, asked);
            Took::Nothing
        });
        if reply.is_taken { Ok(()) } else { Err(NotAcknowledged { pause_max: HEARTBEAT_EVERY }) }
    }

    /// What the neighbor is told now: the first message, and what is acknowledged with the last.
    fn next(&self, state: &State, channel: &Channel, cause: Cause) -> (Option<SummaryNews>, (Position, u64)) {
        let now = clock::now();
        let neighbors = self.links.current();
        let relays = *self.relays_news.borrow();
        let mut told = channel.told.lock();
        let begins = told.position().is_none();
        let is_urgent = self.urgent_links.load(Ordering::Relaxed) >= neighbors.version;
        let tells_links = begins
            || cause.is_tick
            || is_urgent
            || (cause.links && (channel.is_young(now) || needs_links(&told, channel.to, &neighbors)));
        told.tell_own(self.me, &state.own_summary(), tells_links.then_some(&neighbors.sorted));
        let is_changed = begins || channel.progress.lock().relays_seen != relays;
        if told.needs_others(is_changed, cause.is_tick, |via| neighbors.trusts(via, now)) {
            let (relays, is_early) = self.relays(channel, &neighbors, now);
            told.tell_others(&relays, cause.is_tick, is_early);
        }
        let position = told.position().unwrap_or_default();
        let message = told.next_message();
        drop(told);
        let mut progress = channel.progress.lock();
        progress.relays_seen = relays;
        progress.looked_at = Some(now);
        let links_before = progress.acknowledged.map_or(0, |(_, links)| links);
        let links = if tells_links { neighbors.version } else { links_before };
        (message, (position, links))
    }

    /// The number up to which all that the neighbor was told is up to date; 0 if it is not. News of links and of others
    /// may be on their way, if they are looked at.
    pub(super) fn confirms(&self, state: &State, channel: &Channel, now: Instant) -> u64 {
        let relays = *self.relays_news.borrow();
        {
            let progress = channel.progress.lock();
            let looked = progress.looked_at.map(|at| now.saturating_duration_since(at));
            let longest = if progress.relays_seen == relays { 2 * HEARTBEAT_EVERY } else { LINKS_AFTER };
            if looked.is_none_or(|looked| looked > longest) {
                return 0;
            }
        }
        let told = channel.told.lock();
        let neighbors = self.links.current();
        if !told.relays_hold(|via| neighbors.trusts(via, now)) {
            return 0;
        }
        told.confirms(state.own_summary().position())
    }
}

/// Whether the neighbor `to` has to hear at once of a link of ours. It need not where it asks the other end itself:
/// who joins a mesh costs the others no messages.
fn needs_links(told: &Told, to: NodeTag, neighbors: &Neighbors) -> bool {
    let is_told = |tag: &NodeTag| told.neighbors().is_some_and(|told| told.binary_search(tag).is_ok());
    neighbors
        .reachable
        .iter()
        .map(|neighbor| &neighbor.connected.channel)
        .any(|channel| channel.to != to && !is_told(&channel.to) && !channel.theirs.read().has_neighbor(&to))
}

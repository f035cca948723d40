//! Advertises our names over one connection to a neighbor that is trusted: what is new as one message, at once; and that
//! nothing is new as one heartbeat, for which all connections of this node wake up together.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{
    IndexerServiceClient, Refusal, clock,
    summary::{Change, SummaryNews},
    transport::call_within,
};
use tokio::time::{Instant as TokioInstant, sleep, sleep_until};
use tracing::debug;

use super::{Neighborhood, channel::Channel};
use crate::state::{
    State,
    summary::{CURRENT_FOR, Position},
};

/// How often the end that opened a connection says that nothing is new; the answer says so of the other end.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(1200);
/// The end that was connected to sends heartbeats itself if it has heard none for this long: the other does not trust it.
const LED_WITHIN: Duration = Duration::from_millis(1300);
/// Time for a neighbor to acknowledge a message.
const ACKNOWLEDGED_WITHIN: Duration = CURRENT_FOR;
/// The same for a message with a filter: over a slow link it takes longer, and nothing depends on when it arrives.
const FILTERS_WITHIN: Duration = Duration::from_secs(20);
/// Pause before a retry when a neighbor did not acknowledge; it doubles up to [`HEARTBEAT_EVERY`].
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// The longest pause where the neighbor refuses: it has no room for us, and each time is told everything.
const RETRY_REFUSED_MAX: Duration = Duration::from_secs(30);
/// News of our links are gathered for this long: who joins a mesh has most of its links by then.
const LINKS_AFTER: Duration = Duration::from_millis(100);
/// The end that only answers heartbeats counts from the one before: it is told something two heartbeats old.
const _: () = assert!(2 * HEARTBEAT_EVERY.as_millis() + 500 < CURRENT_FOR.as_millis());

/// What a message did not bring about; the neighbor is told everything anew.
struct NotAcknowledged {
    /// The longest pause before that.
    pause_max: Duration,
}

impl Neighborhood {
    /// Advertises our names over `channel` while the neighbor is trusted. Never ends.
    ///
    /// # Cancel safety
    /// Safe, but the channel cannot be used for another connection.
    pub(crate) async fn advertise(
        &self,
        state: &State,
        channel: &Arc<Channel>,
        neighbor: &IndexerServiceClient,
    ) {
        loop {
            channel.trusted(true).await;
            tokio::select! {
                biased;
                () = channel.trusted(false) => {}
                () = self.advertise_to_trusted(state, channel, neighbor) => {} // it never ends
            }
            channel.told.lock().begin_anew();
        }
    }

    async fn advertise_to_trusted(
        &self,
        state: &State,
        channel: &Arc<Channel>,
        neighbor: &IndexerServiceClient,
    ) {
        let _open = self.acknowledged.add(channel);
        let mut own = self.own_news.subscribe();
        let mut links = self.links.versions();
        let mut links_at = None;
        let mut tick = self.next_tick(TokioInstant::now());
        let (mut is_tick, mut failures) = (false, 0);
        loop {
            own.mark_unchanged(); // all of it is told now
            match self.tell(state, channel, neighbor, is_tick).await {
                Ok(()) => failures = 0,
                Err(NotAcknowledged { pause_max }) => {
                    channel.told.lock().begin_anew();
                    sleep(RETRY_AFTER.saturating_mul(1 << failures).min(pause_max)).await;
                    failures = (failures + 1).min(10);
                    continue;
                }
            }
            loop {
                let due = links_at.map_or(tick, |at| tick.min(at));
                tokio::select! {
                    biased;
                    // The senders live in `self`.
                    _ = own.changed() => break,
                    _ = links.changed(), if links_at.is_none() => links_at = Some(TokioInstant::now() + LINKS_AFTER),
                    () = sleep_until(due) => break,
                }
            }
            let now = TokioInstant::now();
            is_tick = now >= tick;
            if is_tick {
                tick = self.next_tick(now);
            }
            links_at = None; // they are told with all else
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
        is_tick: bool,
    ) -> Result<(), NotAcknowledged> {
        let leads =
            channel.leads || channel.silent_for(clock::now()).is_none_or(|silent| silent > LED_WITHIN);
        let mut is_heartbeat_due = is_tick && leads;
        loop {
            // Before it is looked at what is new: a registration that is missing there waits for whoever was heard by
            // now, so the neighbor must not count from a later moment.
            let echo_ms = channel.progress.lock().their_clock_ms;
            let (mut message, acknowledges) = self.next(state, channel);
            if message.is_none() && is_heartbeat_due {
                message = Some(channel.told.lock().heartbeat());
            }
            let is_undated = message.is_some() && echo_ms == 0;
            while let Some(next) = message {
                self.send(channel, neighbor, SummaryNews { echo_ms, ..next }).await?;
                message = channel.told.lock().next_message();
            }
            if channel.progress.lock().acknowledged.replace(acknowledges) != Some(acknowledges) {
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

    async fn send(
        &self,
        channel: &Channel,
        neighbor: &IndexerServiceClient,
        message: SummaryNews,
    ) -> Result<(), NotAcknowledged> {
        let asked = clock::now();
        let has_filter = message.changes.iter().any(|change| matches!(change, Change::Filter { .. }));
        let within = if has_filter { FILTERS_WITHIN } else { ACKNOWLEDGED_WITHIN };
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
        {
            let mut progress = channel.progress.lock();
            progress.heard = Some(clock::now());
            progress.their_clock_ms = reply.clock_ms;
        }
        channel.write(|at| self.clock_ms(at), |theirs| theirs.confirm(reply.confirms, asked));
        if reply.is_taken { Ok(()) } else { Err(NotAcknowledged { pause_max: HEARTBEAT_EVERY }) }
    }

    /// What the neighbor is told now: the first message, and what is acknowledged with the last.
    fn next(&self, state: &State, channel: &Channel) -> (Option<SummaryNews>, (Position, u64)) {
        let neighbors = self.links.current();
        let mut told = channel.told.lock();
        told.tell(&state.own_summary(), neighbors.version, || neighbors.as_change());
        let position = told.position().unwrap_or_default();
        let message = told.next_message();
        drop(told);
        channel.progress.lock().looked_at = Some(clock::now());
        (message, (position, neighbors.version))
    }

    /// The number up to which all that the neighbor was told is up to date; 0 if it is not. News of links may be on their
    /// way, if they are looked at.
    pub(super) fn confirms(&self, state: &State, channel: &Channel, now: Instant) -> u64 {
        let looked = channel.progress.lock().looked_at.map(|at| now.saturating_duration_since(at));
        if looked.is_none_or(|looked| looked > 2 * HEARTBEAT_EVERY) {
            return 0;
        }
        channel.told.lock().confirms(state.own_summary().position())
    }
}

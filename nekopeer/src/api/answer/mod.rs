//! [`Answer`]: where a command sends its answer.

mod done;
mod failure;
mod input;
mod reply;

use std::{sync::Arc, time::Duration};

use nekoproto::FileName;
use serde::Serialize;
use tokio::{
    sync::{broadcast, mpsc},
    time::{Instant, interval_at},
};
use tokio_util::sync::CancellationToken;

pub(super) use self::input::InputReader;
use self::reply::PARTS_MAX;
pub(crate) use self::{
    done::{Done, Framed, Outcome, Shape},
    input::{INPUT_WAITING_MAX, Input, PIECE_BYTES, Piece, PieceWriter, feed, no_input},
    reply::{Reply, Snapshot},
};
use super::Row;
pub(crate) use crate::failure::{Failure, FailureKind, in_one_line};
use crate::{library::events::Event, util::progress::Progress};

/// Replies that wait to be taken; a command is slowed down beyond.
const REPLIES_WAITING_MAX: usize = 4;
/// About how many bytes of rows travel together.
const ROWS_BYTES_AIMED_AT: usize = 64 * 1024;
/// What takes less time has no progress.
const PROGRESS_AFTER: Duration = Duration::from_millis(200);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Where a command sends its answer. Whoever takes it slowly slows the command down and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Answer(pub(crate) mpsc::Sender<Reply>);

impl Answer {
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Reply>) {
        let (sender, replies) = mpsc::channel(REPLIES_WAITING_MAX);
        (Self(sender), replies)
    }

    pub(in crate::api) async fn send(&self, reply: Reply) -> Result<(), Failure> {
        self.0.send(reply).await.map_err(|_| Failure::new("nobody takes the answer"))
    }

    pub(in crate::api) async fn row(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.send(Reply::Rows(vec![Row::of(value)])).await
    }

    pub(in crate::api) async fn rows_of<T, S: Serialize>(
        &self,
        items: impl IntoIterator<Item = T>,
        row: impl Fn(T) -> S,
    ) -> Result<(), Failure> {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for row in items.into_iter().map(|item| Row::of(&row(item))) {
            bytes += row.text().len();
            piece.push(row);
            if bytes >= ROWS_BYTES_AIMED_AT {
                bytes = 0;
                let len = piece.len();
                let full = std::mem::replace(&mut piece, Vec::with_capacity(len));
                self.send(Reply::Rows(full)).await?;
            }
        }
        if piece.is_empty() { Ok(()) } else { self.send(Reply::Rows(piece)).await }
    }

    pub(in crate::api) async fn reporting<T>(
        &self,
        progress: &Arc<Progress>,
        work: impl Future<Output = T>,
    ) -> T {
        let now = || (Snapshot::of(progress), progress.waiting_for(), progress.parts());
        self.reporting_of(now, PROGRESS_EVERY, work).await
    }

    /// The same of what is found each time: how far the whole is, what it waits for, and the files in work.
    pub(in crate::api) async fn reporting_of<T>(
        &self,
        look: impl Fn() -> (Snapshot, Option<String>, Vec<(FileName, Arc<Progress>)>),
        every: Duration,
        work: impl Future<Output = T>,
    ) -> T {
        let mut ticks = interval_at(Instant::now() + PROGRESS_AFTER, every);
        let (mut last, mut last_parts, mut was_told) = (None, Vec::new(), false);
        tokio::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = ticks.tick() => {
                    let (now, waiting_for, parts) = look();
                    // The next report says more than one that finds no room.
                    if last != Some(now) && self.0.try_send(Reply::Progress(now)).is_ok() {
                        last = Some(now);
                    }
                    // Once for each time that it waits.
                    was_told = match waiting_for {
                        Some(text) => was_told || self.0.try_send(Reply::Note(text)).is_ok(),
                        None => false,
                    };
                    let parts: Vec<_> = parts.into_iter().take(PARTS_MAX).map(|(name, part)| (name, Snapshot::of(&part))).collect();
                    if last_parts != parts && self.0.try_send(Reply::Parts(parts.clone())).is_ok() {
                        last_parts = parts;
                    }
                }
            }
        }
    }

    /// A writer whose bytes become part of the answer. It blocks.
    pub(in crate::api) fn writer(&self) -> PieceWriter<Reply> {
        PieceWriter(self.0.clone(), Reply::Bytes)
    }
}

/// Sends the events that are wanted until nobody takes them, the peer has ended, or all that have come are sent and they
/// are `enough`; those of the command's `own` come before what is told later. Events that a slow receiver missed are counted.
pub(crate) async fn pass_events(
    is_wanted: impl Fn(&Event) -> bool,
    mut events: broadcast::Receiver<Event>,
    own: Option<mpsc::Receiver<Event>>,
    answer: &Answer,
    enough: &CancellationToken,
) {
    let mut own = own.unwrap_or_else(|| mpsc::channel(1).1);
    loop {
        let event = tokio::select! {
            biased;
            Some(own) = own.recv() => Ok(own),
            event = events.recv() => event,
            () = enough.cancelled() => return,
        };
        let reply = match event {
            Ok(event) if is_wanted(&event) => Reply::Event(event),
            Ok(_) => continue,
            Err(broadcast::error::RecvError::Lagged(missed)) => Reply::EventsMissed(missed),
            Err(broadcast::error::RecvError::Closed) => return,
        };
        if answer.send(reply).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::events::EVENTS_KEPT;

    #[tokio::test]
    async fn events_go_on_after_more_than_are_kept_came_at_once() {
        let (sender, events) = broadcast::channel(EVENTS_KEPT);
        let event = |n: usize| Event::Dropped(FileName::new(&format!("f{n}")).unwrap());
        (0..EVENTS_KEPT + 10).for_each(|n| drop(sender.send(event(n))));
        drop(sender);
        let (answer, mut replies) = Answer::channel();
        let enough = CancellationToken::new();
        enough.cancel(); // what has come is sent all the same
        let passing =
            tokio::spawn(async move { pass_events(|_| true, events, None, &answer, &enough).await });
        assert_eq!(replies.recv().await, Some(Reply::EventsMissed(10)));
        for n in 10..EVENTS_KEPT + 10 {
            assert_eq!(replies.recv().await, Some(Reply::Event(event(n))));
        }
        assert_eq!(replies.recv().await, None);
        passing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_a_moment_has_no_progress_and_what_takes_longer_has() {
        for (ms, reports) in [(150, 0), (450, 1)] {
            let (answer, mut replies) = Answer::channel();
            let progress = Arc::new(Progress::default());
            answer.reporting(&progress, tokio::time::sleep(Duration::from_millis(ms))).await;
            drop(answer);
            let mut found = 0;
            while replies.recv().await.is_some() {
                found += 1;
            }
            assert_eq!(found, reports, "after {ms} ms; what did not change is not repeated");
        }
    }

    #[tokio::test]
    async fn rows_travel_in_bounded_pieces() {
        let (answer, mut replies) = Answer::channel();
        let names: Vec<_> = (0..2000).map(|n| FileName::new(&format!("f{n}")).unwrap()).collect();
        let sending = tokio::spawn(async move {
            answer
                .rows_of(names, |name| serde_json::json!({ "name": name, "padding": "x".repeat(400) }))
                .await
        });
        let mut sizes = Vec::new();
        while let Some(Reply::Rows(rows)) = replies.recv().await {
            sizes.push(rows.len());
        }
        sending.await.unwrap().unwrap();
        assert_eq!(sizes.iter().sum::<usize>(), 2000);
        assert!(sizes.len() > 5 && sizes.iter().all(|len| *len < 300), "{sizes:?}");
    }
}

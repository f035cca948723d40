//! Shows what happens in the background of a peer.

use std::{thread, time::Duration};

use nekoindexer::daemon::settings::advice;
use tokio::{
    sync::{broadcast, oneshot},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    api::{Answer, Events, Reply, no_input, pass_events},
    door::Caller,
    library::events::Event,
};

/// Time limit for an output to take the last events.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

pub(super) enum EventSource {
    Here(broadcast::Receiver<Event>),
    There(Box<Caller>),
}

/// Events are being shown. Dropping it ends that.
pub(super) struct Showing {
    task: AbortOnDropHandle<()>,
    enough: CancellationToken,
}

impl Showing {
    /// Waits until what has happened so far is shown, if the output takes it in time.
    pub(super) async fn end(self) {
        self.enough.cancel();
        drop(timeout(SHOWN_WITHIN, self.task).await);
    }
}

/// Shows each event for which `is_shown` holds, and whether it is of a failure, until `show` returns false, the peer ends or the
/// handle is dropped.
/// `show` may block: it is called on a thread, which ends with the process.
pub(super) fn show(
    source: EventSource,
    is_shown: impl Fn(&Event) -> bool + Send + 'static,
    mut show: impl FnMut(String, bool) -> bool + Send + 'static,
) -> Showing {
    let (answer, mut replies) = Answer::channel();
    let (all_shown, until_shown) = oneshot::channel::<()>();
    thread::spawn(move || {
        let _all_shown = all_shown; // closed at the end
        while let Some(reply) = replies.blocking_recv() {
            let (text, is_failure) = match reply {
                Reply::Event(event) if is_shown(&event) => {
                    (format!("{event}{}", advice(event.remedy())), event.is_failure())
                }
                Reply::EventsMissed(missed) => (format!("{missed} events missed"), true),
                _ => continue,
            };
            if !show(text, is_failure) {
                return;
            }
        }
    });
    let enough = CancellationToken::new();
    let is_enough = enough.clone();
    let task = AbortOnDropHandle::new(tokio::spawn(async move {
        match source {
            EventSource::Here(events) => {
                pass_events(Event::is_worth_showing, events, None, &answer, &is_enough).await;
            }
            // The next command says what became of the peer.
            EventSource::There(mut caller) => {
                let showing = caller.carry_out(Events {}.into(), no_input(), &answer);
                drop(is_enough.run_until_cancelled(showing).await);
            }
        }
        drop(answer);
        let _ = until_shown.await;
    }));
    Showing { task, enough }
}

#[cfg(test)]
mod tests {
    use nekoproto::FileName;

    use super::*;

    #[tokio::test]
    async fn output_that_blocks_does_not_hold_up_the_runtime() {
        let (sender, events) = broadcast::channel(1);
        let (shows, mut shown) = tokio::sync::mpsc::channel(1);
        let (unblock, blocked) = std::sync::mpsc::channel();
        let _showing = show(
            EventSource::Here(events),
            |_| true,
            move |text, _| {
                shows.try_send(text).is_ok() && blocked.recv_timeout(Duration::from_secs(30)).is_ok()
            },
        );
        sender.send(Event::Dropped(FileName::new("a").unwrap())).unwrap();
        shown.recv().await.unwrap();
        unblock.send(()).expect("it is blocked meanwhile");
    }
}

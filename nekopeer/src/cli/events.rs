//! Shows what happens in the background of a peer.

use std::thread;

use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    commands::{Answer, Command, Reply, no_input, pass_events},
    door::Caller,
    library::events::Event,
};

/// Where events come from.
pub(super) enum Source {
    /// The peer of this process.
    Here(broadcast::Receiver<Event>),
    /// The peer that runs already.
    There(Box<Caller>),
}

/// Shows each event for which `is_shown` holds, until `show` returns false, the peer ends or the handle is dropped.
/// `show` may block: it is called on a thread, which ends with the process.
pub(super) fn show(
    source: Source,
    is_shown: impl Fn(&Event) -> bool + Send + 'static,
    mut show: impl FnMut(String) -> bool + Send + 'static,
) -> AbortOnDropHandle<()> {
    let (answer, mut replies) = Answer::channel();
    thread::spawn(move || {
        while let Some(reply) = replies.blocking_recv() {
            let text = match reply {
                Reply::Event(event) if is_shown(&event) => event.to_string(),
                Reply::EventsMissed(missed) => format!("{missed} events missed"),
                _ => continue,
            };
            if !show(text) {
                return;
            }
        }
    });
    AbortOnDropHandle::new(tokio::spawn(async move {
        match source {
            Source::Here(events) => pass_events(events, &answer).await,
            // The next command says what became of the peer.
            Source::There(mut caller) => drop(caller.carry_out(Command::Events, no_input(), &answer).await),
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nekoproto::FileName;

    use super::*;

    #[tokio::test]
    async fn output_that_blocks_does_not_hold_up_the_runtime() {
        let (sender, events) = broadcast::channel(1);
        let (shows, mut shown) = tokio::sync::mpsc::channel(1);
        let (unblock, blocked) = std::sync::mpsc::channel();
        let _showing = show(
            Source::Here(events),
            |_| true,
            move |text| shows.try_send(text).is_ok() && blocked.recv_timeout(Duration::from_secs(30)).is_ok(),
        );
        sender.send(Event::Dropped(FileName::new("a").unwrap())).unwrap();
        shown.recv().await.unwrap();
        unblock.send(()).expect("it is blocked meanwhile");
    }
}

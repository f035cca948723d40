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

//! Shows what happens in the background of a peer.

use tokio::sync::{broadcast, mpsc};

use crate::{
    commands::{Answer, Command, REPLIES_WAITING_MAX, Reply, pass_events},
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

/// Shows each event for which `is_shown` holds, until `show` returns false or the peer ends.
pub(super) async fn show(
    source: Source,
    is_shown: impl Fn(&Event) -> bool,
    mut show: impl FnMut(String) -> bool,
) {
    let (sender, mut replies) = mpsc::channel(REPLIES_WAITING_MAX);
    let answer = Answer(sender);
    let passing = async move {
        match source {
            Source::Here(events) => pass_events(events, &answer).await,
            Source::There(mut caller) => {
                let (_, no_input) = mpsc::channel(1);
                // The next command says what became of the peer.
                drop(caller.carry_out(Command::Events, no_input, &answer).await);
            }
        }
    };
    let showing = async {
        while let Some(reply) = replies.recv().await {
            let text = match reply {
                Reply::Event(event) if is_shown(&event) => event.to_string(),
                Reply::EventsMissed(missed) => format!("{missed} events missed"),
                _ => continue,
            };
            if !show(text) {
                replies.close();
            }
        }
    };
    tokio::join!(passing, showing);
}

//! [`Door`]: the running peer's side. Takes commands from the socket and sends their answers.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use super::{
    Facts, Request,
    frames::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Receiver, Room, Sender, split},
    place::Place,
};
use crate::{
    commands::{
        Answer, COMMANDS_MAX, Command, Failure, FailureKind, Host, INPUT_WAITING_MAX, Piece, Reply, carry_out,
    },
    storage::lock::DataLock,
};

/// Version of what is said at the door; the first frame of a connection.
pub(super) const DOOR_VERSION: u32 = 13;
/// Connections at once: more than commands, so that `stop` is always heard. Of too many the one gives way that has said
/// no command for the longest time.
const CONNECTIONS_MAX: usize = COMMANDS_MAX + 64;
/// Time limit for a caller to say its command.
const COMMAND_WITHIN: Duration = Duration::from_secs(5);
/// Time limit to tell a caller that the peer ends.
const FAREWELL_WITHIN: Duration = Duration::from_millis(500);
/// Time limit for the commands of others, when a peer ends by itself.
const OTHERS_WITHIN: Duration = Duration::from_secs(2);

/// Interval between looks at whether the socket is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a door is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its own command is done: those of others have a moment, and are then repeated elsewhere.
    Done,
    /// Its user left: the commands of others are repeated elsewhere.
    Left,
    /// A command asked for the end: the commands of others end too.
    Stopped,
}

/// An open door. Dropping it closes it at once.
#[derive(Debug)]
pub(crate) struct Door {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: Arc<Host>,
    facts: Facts,
    connections: Arc<Semaphore>,
    /// Connections that have said no command, in the order in which they came.
    silent: Mutex<BTreeMap<u64, CancellationToken>>,
    came: AtomicU64,
    /// Commands that are carried out and come to an end.
    working: TaskTracker,
    /// Room for what they send.
    room: Room,
    /// No new connections.
    closing: CancellationToken,
    /// The end of all connections.
    closed: CancellationToken,
    ending: Mutex<Ending>,
    tasks: TaskTracker,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shared.closing.cancel();
        self.shared.closed.cancel();
    }
}

impl Door {
    /// Opens the door of `data_dir`, whose lock this process holds.
    pub(crate) fn open(data_dir: &Path, host: &Arc<Host>, facts: Facts) -> io::Result<Self> {
        let place = Place::make(data_dir)?;
        let listener = place.listen()?;
        let shared = Arc::new(Shared {
            host: Arc::clone(host),
            facts,
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            silent: Mutex::default(),
            came: AtomicU64::new(0),
            working: TaskTracker::new(),
            room: Room::default(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
            ending: Mutex::new(Ending::Stopped),
            tasks: TaskTracker::new(),
        });
        shared.tasks.spawn(Arc::clone(&shared).accept(data_dir.to_owned(), place, listener));
        Ok(Self { shared })
    }

    /// Serves this caller; if it is the last, the door closes right after it was let in.
    #[cfg(test)]
    pub(super) async fn let_in(&self, stream: UnixStream, is_last: bool) {
        if is_last {
            self.shared.closed.cancel();
        }
        Arc::clone(&self.shared).take(stream).await;
    }

    #[cfg(test)]
    pub(super) fn free_commands(&self) -> usize {
        self.shared.host.commands.available_permits()
    }

    /// Completes when no command is carried out, but those that have no end.
    pub(crate) async fn idle(&self) {
        self.shared.working.close();
        self.shared.working.wait().await;
    }

    /// Closes the door: takes no further command, ends those that run, and returns when all have ended.
    pub(crate) async fn close(self, ending: Ending) {
        let Shared { closing, closed, tasks, .. } = &*self.shared;
        *self.shared.ending.lock() = ending;
        closing.cancel();
        tasks.close();
        if ending == Ending::Done {
            let _ = timeout(OTHERS_WITHIN, self.idle()).await; // the others are told below
        }
        closed.cancel();
        tasks.wait().await;
    }
}

impl Shared {
    async fn accept(self: Arc<Self>, data_dir: PathBuf, mut place: Place, mut listener: UnixListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.closing.cancelled() => break,
                () = sleep(LOOK_EVERY) => {
                    if let Some(again) = opened_again(&data_dir, &place) {
                        (place, listener) = again;
                    }
                    continue;
                }
            };
            match accepted {
                Ok((stream, _)) => {
                    self.tasks.spawn(Arc::clone(&self).take(stream));
                }
                Err(error) => {
                    debug!(%error, "a caller could not be let in");
                    sleep(Duration::from_millis(50)).await; // no file descriptor is left
                }
            }
        }
        // Before the lock is released: afterwards it would be the socket of the next peer.
        if let Err(error) = place.remove() {
            debug!(%error, "the socket cannot be removed");
        }
    }

    async fn take(self: Arc<Self>, stream: UnixStream) {
        if self.connections.available_permits() == 0
            && let Some((_, longest)) = self.silent.lock().pop_first()
        {
            longest.cancel();
        }
        let Ok(_connection) = self.connections.acquire().await else { return };
        match stream.peer_cred() {
            Ok(cred) if may_enter(cred.uid()) => {}
            other => {
                debug!(?other, "a caller of another user was sent away");
                return;
            }
        }
        let (mut receiver, mut sender) = split(stream, REQUEST_BYTES_MAX, REPLY_BYTES_MAX, Some(&self.room));
        if let Err(error) = self.serve(&mut receiver, &mut sender).await {
            debug!(%error, "a caller left");
        }
    }

    async fn serve(&self, receiver: &mut Receiver, sender: &mut Sender) -> io::Result<()> {
        let greeting = async {
            sender.send(&DOOR_VERSION).await?;
            sender.send(&self.facts).await
        };
        // Also where the door closes: who was let in takes what comes first for the greeting.
        timeout(FAREWELL_WITHIN, greeting).await??;
        let (came, leaves) = (self.came.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
        self.silent.lock().insert(came, leaves.clone());
        let spoken = scopeguard::guard((), |()| drop(self.silent.lock().remove(&came)));
        let command = tokio::select! {
            biased;
            asked = timeout(COMMAND_WITHIN, receiver.next()) => match asked {
                Ok(Ok(Some(Request::Command(command)))) => *command,
                Ok(Err(error)) => return Err(error),
                Ok(_) => return Ok(()),
                Err(_) => return self.farewell(sender, Ending::Left).await, // it may ask anew
            },
            () = self.closed.cancelled() => return self.farewell(sender, Ending::Left).await,
            () = leaves.cancelled() => return self.farewell(sender, Ending::Left).await,
        };
        drop(spoken);
        let _working = (!command.is_endless()).then(|| self.working.token());
        let place = match self.host.place(&command) {
            Ok(place) => place,
            Err(busy) => return sender.send(&Reply::Finished(Err(busy))).await,
        };
        let is_ended = self.run(command, receiver, sender).await?;
        drop(place);
        let ending = *self.ending.lock();
        if is_ended { Ok(()) } else { self.farewell(sender, ending).await }
    }

    /// Runs the command until it is done, the caller leaves, or the door is closed; then returns false.
    async fn run(&self, command: Command, receiver: &mut Receiver, sender: &mut Sender) -> io::Result<bool> {
        let (answer, mut replies) = Answer::channel();
        let (pieces, input) = mpsc::channel(INPUT_WAITING_MAX);
        let host = &self.host;
        let working = async move {
            let result = carry_out(host, command, input, &answer).await;
            drop(answer.0.send(Reply::Finished(result)).await); // the replies are taken below
        };
        // Who cannot be told takes no further replies, on which the command would wait.
        let sending = async move {
            while let Some(reply) = replies.recv().await {
                sender.send(&reply).await?;
            }
            io::Result::Ok(())
        };
        let listening = async {
            loop {
                let piece = match receiver.next::<Request>().await {
                    Ok(Some(Request::Input(bytes))) => Piece::Bytes(bytes),
                    Ok(Some(Request::InputEnd)) => Piece::End,
                    Ok(Some(Request::InputFailed(why))) => Piece::Failed(why),
                    Ok(Some(Request::Command(_)) | None) | Err(_) => return, // the caller leaves
                };
                drop(pieces.send(piece).await); // not every command reads its input
            }
        };
        let answering = async { tokio::join!(working, sending).1 };
        tokio::select! {
            biased;
            sent = answering => sent.map(|()| true),
            () = listening => Ok(true),
            () = self.closed.cancelled() => Ok(false),
        }
    }

    async fn farewell(&self, sender: &mut Sender, ending: Ending) -> io::Result<()> {
        let failure = match ending {
            Ending::Done | Ending::Left => {
                Failure { kind: FailureKind::Moved, ..Failure::new("the running peer ended") }
            }
            Ending::Stopped => Failure::new("the running peer was stopped; what came so far is kept"),
        };
        timeout(FAREWELL_WITHIN, sender.send(&Reply::Finished(Err(failure)))).await?
    }
}

/// Puts the socket back if somebody removed it, unless the data folder is gone, or another peer's by now.
fn opened_again(data_dir: &Path, place: &Place) -> Option<(Place, UnixListener)> {
    let is_ours = || DataLock::holder(data_dir).ok().flatten() == Some(std::process::id());
    if place.has_socket() || !is_ours() {
        return None;
    }
    let opened = Place::make(data_dir).and_then(|place| Ok((place.listen()?, place)));
    let opened = opened.inspect_err(|error| debug!(%error, "the socket cannot be put back"));
    opened.ok().map(|(listener, place)| (place, listener))
}

/// Whether processes of this user may give commands.
fn may_enter(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

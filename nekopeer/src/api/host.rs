//! [`Host`]: a running peer that carries out commands.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use super::{Answer, Command, Failure, FailureKind, Input, JobTable, Reply, carry_out};
use crate::peer::PeerHandle;

/// Commands carried out at once. One whose caller does not take the answer counts until the caller leaves.
pub(crate) const COMMANDS_MAX: usize = 64;

/// Time limit for the commands of others, when a peer ends by itself.
const OTHERS_WITHIN: Duration = Duration::from_secs(2);

/// Why a peer takes no further commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its own command is done: those of others have a moment, and are then repeated elsewhere.
    Done,
    /// Its user left: the commands of others are repeated elsewhere.
    Left,
    /// A command asked for the end: the commands of others end too.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) peer: PeerHandle,
    /// Cancelled when a command asks the peer to end.
    pub(crate) stop: CancellationToken,
    pub(crate) jobs: Arc<JobTable>,
    /// Commands that may still be begun, at all doors together.
    pub(crate) commands: Arc<Semaphore>,
    /// The runtime of the peer: connections to other nodes must live there.
    pub(crate) node: Handle,
    /// Commands that are carried out and come to an end.
    working: TaskTracker,
    /// All of them, those that were interrupted too.
    tasks: TaskTracker,
    ending: Mutex<Ending>,
    /// Cancelled when the commands end because the peer does.
    pub(crate) closing: CancellationToken,
}

/// A command that is being carried out. Dropping it interrupts the command: what came so far is kept.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) replies: mpsc::Receiver<Reply>,
    _working: AbortOnDropHandle<()>,
}

impl Host {
    /// Carries out commands on `peer`. To be called on its runtime.
    pub(crate) fn new(peer: PeerHandle) -> Arc<Self> {
        Arc::new(Self {
            peer,
            stop: CancellationToken::new(),
            jobs: Arc::default(),
            commands: Arc::new(Semaphore::new(COMMANDS_MAX)),
            node: Handle::current(),
            working: TaskTracker::new(),
            tasks: TaskTracker::new(),
            ending: Mutex::new(Ending::Stopped),
            closing: CancellationToken::new(),
        })
    }

    /// Begins a command on the runtime of the peer; it is dropped without an end where nobody takes the answer any more
    /// because it was `displaced`.
    pub(crate) fn begin(
        self: &Arc<Self>,
        command: Command,
        input: Input,
        displaced: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Carried, Failure> {
        let place = self.place(&command)?;
        let working = (!command.api().about().is_endless).then(|| self.working.token());
        let (answer, replies) = Answer::channel();
        let host = Arc::clone(self);
        let carrying = async move {
            let _place = place;
            let result = tokio::select! {
                biased;
                () = host.closing.cancelled() => Err(host.farewell()),
                () = displaced => return,
                result = carry_out(&host, command, input, &answer) => result,
            };
            drop(working);
            drop(answer.0.send(Reply::Finished(result)).await); // the caller may be gone
        };
        let task = self.tasks.spawn_on(carrying, &self.node);
        Ok(Carried { replies, _working: AbortOnDropHandle::new(task) })
    }

    /// Completes when no command is carried out, but those that have no end.
    pub(crate) async fn idle(&self) {
        self.working.close();
        self.working.wait().await;
    }

    /// Ends the commands. Those that begin from now on are told that the peer ends.
    pub(crate) async fn close(&self, ending: Ending) {
        *self.ending.lock() = ending;
        if ending == Ending::Done {
            let _ = timeout(OTHERS_WITHIN, self.idle()).await; // the others are told
        }
        self.closing.cancel();
    }

    /// Completes when nothing of a command is left, once all doors are closed.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn farewell(&self) -> Failure {
        match *self.ending.lock() {
            Ending::Done | Ending::Left => Failure::with(FailureKind::Moved, "the running peer ended"),
            Ending::Stopped => Failure::new("the running peer was stopped; what came so far is kept"),
        }
    }

    /// A place among those of commands, which `command` keeps while it is carried out for another process; none for the
    /// end of the peer, which is always heard.
    fn place(&self, command: &Command) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        if matches!(command, Command::Stop(_)) {
            return Ok(None);
        }
        Arc::clone(&self.commands).try_acquire_owned().map(Some).map_err(|_| {
            Failure::with(
                FailureKind::Busy,
                format!("the running peer carries out {COMMANDS_MAX} commands already"),
            )
        })
    }
}

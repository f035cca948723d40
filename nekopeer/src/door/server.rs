//! [`Door`]: the running peer's side. Takes commands from the socket and sends their answers.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use nekoproto::transport::slots::{Activity, SlotOwner, Slots};
use tokio::{
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use super::{Facts, place::SocketPlace, router::router};
use crate::{
    api::{COMMANDS_MAX, Ending, Host},
    storage::lock::DataLock,
};

/// Connections at once: more than commands, so that `stop` is always heard. Of too many the one gives way that has said
/// no command for the longest time.
const CONNECTIONS_MAX: usize = COMMANDS_MAX + 64;
const SAID_WITHIN: Duration = Duration::from_secs(5);
const FAREWELL_WITHIN: Duration = Duration::from_millis(500);
/// Interval between looks at whether the socket is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An open door. Dropping it closes it at once.
#[derive(Debug)]
pub(crate) struct Door {
    host: Arc<Host>,
    connections: Connections,
}

#[derive(Clone, Debug)]
struct Connections {
    router: Router,
    slots: Slots,
    tasks: TaskTracker,
    /// No new ones.
    closing: CancellationToken,
    /// The end of those that have said no command.
    ending: CancellationToken,
    /// The end of all.
    closed: CancellationToken,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.connections.closing.cancel();
        self.connections.closed.cancel();
    }
}

impl Door {
    /// Opens the door of `data_dir`, whose lock this process holds.
    pub(crate) fn open(data_dir: &Path, host: &Arc<Host>, facts: Facts) -> io::Result<Self> {
        let place = SocketPlace::make(data_dir)?;
        let listener = place.listen()?;
        let connections = Connections {
            router: router(host, facts),
            slots: Slots::new(CONNECTIONS_MAX),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            ending: CancellationToken::new(),
            closed: CancellationToken::new(),
        };
        let accepting = connections.clone().accept(data_dir.to_owned(), place, listener);
        connections.tasks.spawn(accepting);
        Ok(Self { host: Arc::clone(host), connections })
    }

    /// Closes the door: takes no further command, ends those that run, and returns when all have ended.
    pub(crate) async fn close(self, ending: Ending) {
        let Connections { closing, ending: ends, closed, tasks, .. } = &self.connections;
        closing.cancel();
        tasks.close();
        self.host.close(ending).await;
        ends.cancel();
        let _ = timeout(FAREWELL_WITHIN, tasks.wait()).await; // who does not take the answer is cut off
        closed.cancel();
        tasks.wait().await;
    }
}

impl Connections {
    async fn accept(self, data_dir: PathBuf, mut place: SocketPlace, mut listener: UnixListener) {
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
                    let serving = self.clone().serve(stream);
                    self.tasks.spawn(self.closed.clone().run_until_cancelled_owned(serving));
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

    async fn serve(self, stream: UnixStream) {
        match stream.peer_cred() {
            Ok(cred) if [0, rustix::process::geteuid().as_raw()].contains(&cred.uid()) => {}
            other => return debug!(?other, "a caller of another user was sent away"),
        }
        let Some(slot) = self.slots.enter(SlotOwner::LOCAL, Activity::default()) else {
            return debug!("a caller was sent away: too many have said commands");
        };
        let (router, activity) = (TowerToHyperService::new(self.router), slot.activity().clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(activity.clone());
            router.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(SAID_WITHIN)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = slot.activity().ended().cancelled() => return debug!("a caller that said nothing gave way"),
            () = self.ending.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            debug!(%error, "a caller left");
        }
    }
}

/// Puts the socket back if somebody removed it, unless the data folder is gone, or another peer's by now.
fn opened_again(data_dir: &Path, place: &SocketPlace) -> Option<(SocketPlace, UnixListener)> {
    let is_ours = || DataLock::holder(data_dir).ok().flatten() == Some(std::process::id());
    if place.has_socket() || !is_ours() {
        return None;
    }
    let opened = SocketPlace::make(data_dir).and_then(|place| Ok((place.listen()?, place)));
    let opened = opened.inspect_err(|error| debug!(%error, "the socket cannot be put back"));
    opened.ok().map(|(listener, place)| (place, listener))
}

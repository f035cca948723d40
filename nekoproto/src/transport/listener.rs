//! [`Listener`]: accepts connections, each in a task of its own. How many there may be follows from the limit of open
//! files, apart for silent ones, handshakes, control and data; when all are taken, a newcomer evicts another.

use std::{
    future::{Future, poll_fn},
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::io::Errno;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{error::Elapsed, sleep, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    descriptors::{file_limit, shares},
    endpoint::Endpoint,
    error::ConnectError,
    io::stop_listening,
    remote::Connection,
    rendezvous,
    slots::{Activity, Slot, SlotLimits, SlotOwner, Slots},
    turned_away::TurnedAway,
    work_permits::WorkPermits,
};
use crate::{
    limits::{CONTROL_CONNECTIONS_OF_ONE_MAX, HANDSHAKE_TIMEOUT},
    messages::{Purpose, Role},
    tasks::spawn_until,
};

/// Connections the system may queue for `accept`.
const BACKLOG: u32 = 4096;
/// Pause after a failed `accept`: the system lacks a resource, often file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections of each kind that are closed where the system lacks descriptors.
const THINNED: usize = 8;
/// Connections that have sent nothing yet take one of this many parts of the descriptors of control connections that are not
/// in use.
const SILENT_PARTS: usize = 2;

/// How often a newcomer looks for a slot at least, while all handshakes wait for their next step.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);

/// A bound socket of an [`Endpoint`].
#[derive(Debug)]
pub struct Listener {
    endpoint: Arc<Endpoint>,
    socket: TcpListener,
    local_addr: SocketAddr,
    arrivals: Arc<ConnectionLimiter>,
}

/// The connections of a [`Listener`], in numbers.
#[derive(Debug)]
pub struct ConnectionLimiter {
    /// Those that have sent nothing yet.
    silent: Slots,
    handshakes: Slots,
    control: Slots,
    data: Slots,
    steps: WorkPermits,
    /// Newcomers that wait for a handshake.
    waiting: tokio::sync::Mutex<()>,
    refused: AtomicU64,
    failed: AtomicU64,
    turned_away: TurnedAway,
}

impl ConnectionLimiter {
    fn new(role: Role) -> Self {
        let shares = shares(file_limit(), role == Role::Peer);
        let each = CONTROL_CONNECTIONS_OF_ONE_MAX;
        let control = Slots::with(SlotLimits { each, ..SlotLimits::new(shares.control) });
        let [silent, handshakes, data] = [shares.control, shares.handshakes, shares.data].map(Slots::new);
        let (steps, waiting, refused, failed, turned_away) = <_>::default();
        Self { silent, handshakes, control, data, steps, waiting, refused, failed, turned_away }
    }

    const fn spoken(&self) -> [&Slots; 3] {
        [&self.handshakes, &self.data, &self.control]
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.silent.taken() + self.spoken().into_iter().map(Slots::taken).sum::<usize>()
    }

    /// As many as there may be.
    #[must_use]
    pub fn max(&self) -> usize {
        self.spoken().into_iter().map(Slots::max).sum()
    }

    /// Connections that were closed at once, as too many were open.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Connections that were closed for newcomers.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.silent.evicted() + self.spoken().into_iter().map(Slots::evicted).sum::<u64>()
    }

    /// Connections whose handshake failed or took too long.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    fn silent_max(&self) -> usize {
        let unused = self.control.max().saturating_sub(self.control.taken());
        (unused / SILENT_PARTS).max(self.handshakes.max())
    }

    /// A slot for a connection that has said nothing yet.
    fn silent_slot(&self, owner: SlotOwner) -> Option<Slot> {
        self.silent.enter_within(self.silent_max(), owner, Activity::default(), Instant::now())
    }

    /// A slot for the handshake of one that has spoken, which waits for it: whoever takes all may be another node at the
    /// same address.
    async fn handshake_slot(&self, owner: SlotOwner) -> Slot {
        let _first = self.waiting.lock().await; // one looks for a slot, all others wait behind it
        loop {
            if let Some(slot) = self.handshakes.enter(owner, Activity::busy()) {
                return slot;
            }
            let _ = timeout(CROWDED_PAUSE, self.handshakes.freed()).await;
        }
    }

    /// Ends some connections, as the system lacks descriptors: silent ones as long as there are any.
    fn thin_out(&self) {
        match self.silent.taken() {
            0 => self.spoken().into_iter().for_each(|slots| slots.thin_out(THINNED)),
            taken => self.silent.thin_out(taken.div_ceil(2)),
        }
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
        debug!("connection closed: too many at once");
    }
}

impl Endpoint {
    /// Listens on `addr`; port 0 picks a free one. From now on hellos name that port
    /// to those who can reach it.
    ///
    /// # Errors
    /// The address is in use or not of this host.
    pub fn bind(self: &Arc<Self>, addr: SocketAddr) -> io::Result<Listener> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?; // a restarted node gets its port back at once
        socket.bind(addr)?;
        let socket = socket.listen(BACKLOG)?;
        let local_addr = socket.local_addr()?;
        self.announce(local_addr);
        let arrivals = Arc::new(ConnectionLimiter::new(self.role()));
        Ok(Listener { endpoint: Arc::clone(self), socket, local_addr, arrivals })
    }
}

impl Drop for Listener {
    /// A child that another thread of this process has forked has the socket too until it executes its program: the port
    /// would be in use until then.
    fn drop(&mut self) {
        stop_listening(&self.socket);
    }
}

impl Listener {
    /// The address it listens on, with the real port.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Its connections, in numbers.
    #[must_use]
    pub fn arrivals(&self) -> Arc<ConnectionLimiter> {
        Arc::clone(&self.arrivals)
    }

    /// Accepts until `stop`. Each connection gets a task of its own, which `stop` ends too: it does the handshake
    /// and passes the connection to `serve`, or logs why the handshake failed. A connection that has to give way to a
    /// newcomer ends: a control connection ends its driver, of a data stream `serve` is dropped.
    pub async fn run<F, S>(self, stop: CancellationToken, tasks: TaskTracker, serve: F)
    where
        F: Fn(Connection) -> S + Clone + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.socket.accept() => accepted,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(&error) {
                        self.arrivals.thin_out();
                    }
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            let owner = SlotOwner::at(from.ip(), None);
            let Some(seat) = self.arrivals.silent_slot(owner) else {
                self.arrivals.refuse();
                continue;
            };
            let (endpoint, arrivals) = (Arc::clone(&self.endpoint), Arc::clone(&self.arrivals));
            let welcome = Welcome { endpoint, arrivals, tasks: tasks.clone(), stop: stop.clone() };
            spawn_until(&tasks, &stop, welcome.and_serve(stream, (from, owner), seat, serve.clone()));
        }
    }
}

/// What came of a handshake.
type Greeted = Result<Result<Connection, ConnectError>, Elapsed>;

struct Welcome {
    endpoint: Arc<Endpoint>,
    arrivals: Arc<ConnectionLimiter>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Welcome {
    async fn and_serve<F, S>(
        self,
        stream: TcpStream,
        (from, owner): (SocketAddr, SlotOwner),
        seat: Slot,
        serve: F,
    ) where
        F: Fn(Connection) -> S + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let connection = match self.greet(stream, owner, seat).await {
            Some(Ok(Ok(connection))) => connection,
            None => return debug!("connection closed without a handshake"),
            Some(failed) => {
                match failed {
                    Ok(Err(error)) => self.arrivals.turned_away.log(Some(from), &error),
                    _ => debug!("connection closed: no hello in time"),
                }
                self.arrivals.failed.fetch_add(1, Relaxed);
                return;
            }
        };
        // In a task of its own, so that an open connection does not take the room of one that is welcomed.
        let (tasks, stop) = (self.tasks.clone(), self.stop.clone());
        if let Some(serving) = self.begin(connection, &serve) {
            spawn_until(&tasks, &stop, serving);
        }
    }

    /// Serves `connection` if there is a slot for it. No async function: that would keep room for the connection.
    fn begin<F, S>(self, connection: Connection, serve: &F) -> Option<impl Future<Output = ()> + use<F, S>>
    where
        F: Fn(Connection) -> S,
        S: Future<Output = ()>,
    {
        let Connection { remote, purpose, .. } = &connection;
        let (node, slots) = match purpose {
            Purpose::Control => (remote.node, &self.arrivals.control),
            Purpose::Data => (remote.node, &self.arrivals.data),
        };
        let owner = SlotOwner::at(remote.addr.ip(), Some(remote.node));
        let Some(slot) = slots.enter(owner, connection.io.activity.clone()) else {
            self.arrivals.refuse();
            return None;
        };
        // The driver of a control connection ends itself.
        let ended = (*purpose == Purpose::Data).then(|| slot.activity().ended().clone());
        let (endpoint, serving) = (self.endpoint, Box::pin(serve(connection)));
        Some(async move {
            let _slot = slot;
            let serving = endpoint.access().allowed.while_admitted(node, serving);
            match ended {
                None => serving.await,
                Some(ended) => ended.run_until_cancelled(serving).await.unwrap_or_default(),
            }
        })
    }

    /// Waits for the first bytes, which take nothing but a descriptor and `seat`, and for a slot, then does the handshake.
    /// None if it had to give way.
    async fn greet(&self, stream: TcpStream, owner: SlotOwner, seat: Slot) -> Option<Greeted> {
        let until = tokio::time::Instant::now() + HANDSHAKE_TIMEOUT;
        // `readable` also returns where nothing has come yet.
        let mut first = [0];
        let ended = seat.activity().ended().clone();
        match ended.run_until_cancelled(timeout_at(until, stream.peek(&mut first))).await? {
            Ok(Ok(_)) if first[0] == rendezvous::MAGIC[0] => return Box::pin(self.rendezvous(stream)).await,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Some(Ok(Err(error.into()))),
            Err(late) => return Some(Err(late)),
        }
        seat.activity().used();
        let slot = timeout_at(until, self.arrivals.handshake_slot(owner));
        let slot = ended.run_until_cancelled(slot).await?.ok()?;
        drop(seat);
        let activity = slot.activity();
        // In a box, so that neither a silent nor an open connection keeps the room that a handshake takes.
        let greeting = Box::pin(timeout_at(until, self.shake_hands(stream, owner.site, activity)));
        activity.ended().run_until_cancelled(greeting).await
    }

    /// Passes on a connection that is waited for, or joins it with its other half.
    async fn rendezvous(&self, stream: TcpStream) -> Option<Greeted> {
        match self.endpoint.rendezvous().arrived(stream).await {
            Ok(None) => {}
            Ok(Some(pair)) => self.endpoint.relay().join(pair).await,
            Err(error) => return Some(Ok(Err(error.into()))),
        }
        None
    }

    /// Does the handshake, whose steps wait for permits. It gives way to others while it waits for the other end, not
    /// while it waits for a permit.
    async fn shake_hands(
        &self,
        stream: TcpStream,
        site: IpAddr,
        activity: &Activity,
    ) -> Result<Connection, ConnectError> {
        let mut stepping = self.arrivals.steps.at(site);
        let mut welcoming = pin!(self.endpoint.welcome(stream));
        poll_fn(|cx| {
            activity.set_busy(true);
            stepping.poll(cx, |cx| {
                let welcomed = welcoming.as_mut().poll(cx);
                activity.set_busy(welcomed.is_ready());
                welcomed
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::{identity::Identity, transport::EndpointConfig};

    /// As in a child that has been forked and has not executed its program yet.
    #[tokio::test]
    async fn port_of_a_dropped_listener_is_free_while_its_socket_is_open_in_another_process() {
        let identity = Identity::from_seed(&[1; 32]);
        let (role, network, security, access) = (Role::Peer, <_>::default(), <_>::default(), <_>::default());
        let endpoint = Endpoint::new(EndpointConfig { identity, role, network, security, access }).unwrap();
        let listener = endpoint.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let _forked = listener.socket.as_fd().try_clone_to_owned().unwrap();
        let at = listener.local_addr();
        drop(listener);
        endpoint.bind(at).unwrap();
    }
}

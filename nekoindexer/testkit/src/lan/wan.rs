//! Emulates a wide network on one machine: each host is a network namespace with one TUN device, and a thread forwards the
//! IP packets between the devices, with a rate, a delay, jitter and random loss for each. The kernel needs no module for
//! it, only `/dev/net/tun`. Nothing of it has a name outside this process, so it is gone when the process is.

use std::{
    cmp::Reverse, collections::BinaryHeap, error::Error, sync::atomic::AtomicBool, thread::JoinHandle,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::Namespace;
use crate::prelude::*;

const PACKET_MAX: u16 = 1500;
/// The carrier looks this often whether it is to end.
const IDLE: Duration = Duration::from_millis(50);
/// Bytes that wait at either end of a wire at most; what comes then is dropped.
const QUEUE_BYTES: f64 = 1024.0 * 1024.0;
/// Where each host is meant to listen.
const PORT: u16 = 7707;

/// What the wire between a host and the middle of the network does, each way: two hosts have two wires between them.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    pub delay: Duration,
    /// A packet takes up to this much longer; packets stay in order.
    pub jitter: Duration,
    /// A million bits a second; 0: no limit.
    pub mbit: f64,
    /// The share of packets that is lost.
    pub loss: f64,
    /// What the host sends is carried.
    pub sends: bool,
    pub receives: bool,
}

/// A packet of a TCP connection that was carried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// When it was sent, since the network began, and when it arrived.
    pub sent: Duration,
    pub arrived: Duration,
    pub from: usize,
    pub to: usize,
    /// Of `from` and of `to`.
    pub ports: (u16, u16),
    /// Bytes of it, and those of the connection's data.
    pub bytes: usize,
    pub data: usize,
    /// It is the first of its connection.
    pub opens: bool,
}

/// Hosts, each connected with all others. Dropping it takes the devices away.
#[derive(Debug)]
pub struct Wan {
    hosts: Vec<Host>,
    shared: Arc<Shared>,
    carrier: Option<JoinHandle<()>>,
}

#[derive(Clone, Debug)]
pub struct Host {
    pub addr: SocketAddr,
    pub namespace: Namespace,
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    wires: Mutex<Vec<Wire>>,
    carried: Mutex<Vec<Packet>>,
    is_over: AtomicBool,
}

/// A packet on its way: in order of when it is due at the wire of the host that it goes to, or behind that.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    due: Duration,
    number: u64,
    has_passed: bool,
    sent: Duration,
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

type Failed = Box<dyn Error + Send + Sync>;

impl Wire {
    /// One that only takes its time.
    pub const fn of(delay: Duration) -> Self {
        Self { delay, jitter: Duration::ZERO, mbit: 0.0, loss: 0.0, sends: true, receives: true }
    }
}

impl Wan {
    /// A host at the end of each wire; an error where this machine allows none.
    pub fn of(wires: &[Wire]) -> Result<Self, Failed> {
        let made = (1..).take(wires.len()).map(host).collect::<Result<Vec<_>, _>>()?;
        let (hosts, devices): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let (wires, carried, is_over) =
            (Mutex::new(wires.to_vec()), Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { began: Instant::now(), wires, carried, is_over });
        let carrier = thread::spawn({
            let shared = Arc::clone(&shared);
            move || Carrier::new(&shared, devices).run()
        });
        Ok(Self { hosts, shared, carrier: Some(carrier) })
    }

    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// What the wire of this host does from now on.
    pub fn set(&self, host: usize, wire: Wire) {
        self.shared.wires.lock().unwrap()[host] = wire;
    }

    /// What was carried since this was asked last, in the order in which it was sent.
    pub fn take_carried(&self) -> Vec<Packet> {
        let mut carried = std::mem::take(&mut *self.shared.carried.lock().unwrap());
        carried.sort_by_key(|packet| packet.sent);
        carried
    }
}

impl Drop for Wan {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(carrier) = self.carrier.take() {
            drop(carrier.join()); // it panicked, and the test failed for want of answers
        }
    }
}

fn host(number: u8) -> Result<(Host, SyncDevice), Failed> {
    let namespace = Namespace::new()?;
    let addr = Ipv4Addr::new(10, 77, 0, number);
    let device = namespace
        .within(|| DeviceBuilder::new().name("tun0").mtu(PACKET_MAX).ipv4(addr, 24, None).build_sync())?;
    device.set_nonblocking(true)?;
    Ok((Host { addr: SocketAddr::from((addr, PORT)), namespace }, device))
}

struct Carrier<'a> {
    shared: &'a Shared,
    devices: Vec<SyncDevice>,
    /// When each wire has sent what it was given, out of the host and into it.
    free: Vec<[Duration; 2]>,
    /// When the last packet to each host is due.
    last: Vec<Duration>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    number: u64,
    rng: StdRng,
}

impl<'a> Carrier<'a> {
    fn new(shared: &'a Shared, devices: Vec<SyncDevice>) -> Self {
        let (free, last) = (vec![[Duration::ZERO; 2]; devices.len()], vec![Duration::ZERO; devices.len()]);
        let rng = StdRng::seed_from_u64(1);
        Self { shared, devices, free, last, under_way: BinaryHeap::new(), number: 0, rng }
    }

    /// Carries packets until the network is dropped.
    fn run(mut self) {
        let mut packet = [0; PACKET_MAX as usize];
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let due = self
                .under_way
                .peek()
                .map(|Reverse(next)| next.due.saturating_sub(self.shared.began.elapsed()));
            let wait = Timespec::try_from(due.unwrap_or(IDLE)).unwrap();
            let mut polled: Vec<_> =
                self.devices.iter().map(|device| PollFd::new(device, PollFlags::IN)).collect();
            poll(&mut polled, Some(&wait)).unwrap();
            for from in 0..self.devices.len() {
                while let Ok(len) = self.devices[from].recv(&mut packet) {
                    self.take(from, &packet[..len]);
                }
            }
            let now = self.shared.began.elapsed();
            while self.under_way.peek().is_some_and(|Reverse(next)| next.due <= now) {
                match self.under_way.pop() {
                    Some(Reverse(next)) if next.has_passed => {
                        drop(self.devices[next.to].send(&next.bytes)); // what its queue does not take is lost, as elsewhere
                    }
                    Some(Reverse(next)) => self.pass_on(next),
                    None => {}
                }
            }
        }
    }

    fn take(&mut self, from: usize, packet: &[u8]) {
        let Some(to) = destination(packet).filter(|to| *to < self.devices.len()) else { return };
        let [near, far] = [from, to].map(|host| self.shared.wires.lock().unwrap()[host]);
        let mut is_lost = |wire: Wire| wire.loss > 0.0 && self.rng.random_bool(wire.loss.min(1.0));
        if !near.sends || !far.receives || is_lost(near) || is_lost(far) {
            return;
        }
        let sent = self.shared.began.elapsed();
        let Some(passed) = pass(&mut self.free[from][0], near.mbit, sent, packet.len()) else { return };
        self.number += 1;
        let (due, bytes) = (passed + near.delay, packet.to_vec());
        let next = UnderWay { due, number: self.number, has_passed: false, sent, from, to, bytes };
        self.under_way.push(Reverse(next));
    }

    /// Has it pass the wire of the host that it goes to, in the order in which packets of all hosts come there.
    fn pass_on(&mut self, packet: UnderWay) {
        let UnderWay { due: there, sent, from, to, .. } = packet;
        let [near, far] = [from, to].map(|host| self.shared.wires.lock().unwrap()[host]);
        let passed = pass(&mut self.free[to][1], far.mbit, there, packet.bytes.len());
        let Some(passed) = passed else { return };
        let jitter = (near.jitter + far.jitter).mul_f64(self.rng.random());
        let due = (passed + far.delay + jitter).max(self.last[to]);
        self.last[to] = due;
        if let Some(carried) =
            of_tcp(&packet.bytes, Packet { sent, arrived: due, from, to, ..Packet::default() })
        {
            self.shared.carried.lock().unwrap().push(carried);
        }
        self.under_way.push(Reverse(UnderWay { due, has_passed: true, ..packet }));
    }
}

/// When so many bytes that come at `now` have passed a wire of this rate; `None`: its queue is full.
fn pass(free: &mut Duration, mbit: f64, now: Duration, bytes: usize) -> Option<Duration> {
    if mbit <= 0.0 {
        return Some(now);
    }
    let per_second = mbit * 1e6 / 8.0;
    let begins = now.max(*free);
    if (begins - now).as_secs_f64() * per_second > QUEUE_BYTES {
        return None;
    }
    *free = begins + Duration::from_secs_f64(f64::from(u32::try_from(bytes).ok()?) / per_second);
    Some(*free)
}

/// The number of the host that an IPv4 packet is for; nothing else is carried.
fn destination(packet: &[u8]) -> Option<usize> {
    let is_ipv4 = packet.first()? >> 4 == 4;
    let [10, 77, 0, host] = packet.get(16..20)? else { return None };
    is_ipv4.then(|| usize::from(*host).checked_sub(1)).flatten()
}

/// What there is to say of an IPv4 packet, if it is one of TCP.
fn of_tcp(packet: &[u8], of: Packet) -> Option<Packet> {
    const TCP: u8 = 6;
    const SYN: u8 = 0b0_0010;
    const SYN_AND_ACK: u8 = 0b1_0010;
    let ip = usize::from(packet.first()? & 0xf) * 4;
    let tcp = packet.get(ip..).filter(|_| packet.get(9) == Some(&TCP))?;
    let port = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
    let head = usize::from(*tcp.get(12)? >> 4) * 4;
    let opens = *tcp.get(13)? & SYN_AND_ACK == SYN;
    let (bytes, data) = (packet.len(), tcp.len().saturating_sub(head));
    Some(Packet { ports: (port(0)?, port(2)?), bytes, data, opens, ..of })
}

/// How often `host` had to wait for an answer before it could go on: each connection that it opened, and each time that it
/// sent data after it had received some, or its first.
pub fn flights(carried: &[Packet], host: usize) -> usize {
    let mut count = 0;
    let mut turns = HashMap::new();
    for packet in carried {
        let (is_sent, connection) = match packet {
            Packet { from, ports: (own, others), to, .. } if *from == host => (true, (*own, *to, *others)),
            Packet { to, ports: (others, own), from, .. } if *to == host => (false, (*own, *from, *others)),
            _ => continue,
        };
        if is_sent && packet.opens {
            count += 1;
        } else if packet.data > 0 {
            let was_sent = turns.insert(connection, is_sent);
            count += usize::from(is_sent && was_sent != Some(true));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::machine::NETWORKS;

    #[test]
    fn bytes_take_the_delay_and_the_rate_of_both_wires_and_each_wait_is_a_flight() {
        const BYTES: usize = 200_000;
        let delay = Duration::from_millis(10);
        let (slow, quick) = (Wire { mbit: 8.0, ..Wire::of(delay) }, Wire::of(delay));
        let Some(wan) = NETWORKS.or_left_out(Wan::of(&[slow, quick])) else { return };
        let at = wan.host(1).addr;
        let listener = wan.host(1).namespace.within(|| TcpListener::bind(at).unwrap());
        let began = Instant::now();
        let mut near = wan.host(0).namespace.within(|| TcpStream::connect(at).unwrap());
        let (mut far, _) = listener.accept().unwrap();
        let mut bytes = vec![0; BYTES];
        near.write_all(b"?").unwrap();
        far.read_exact(&mut [0]).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| far.write_all(&[7; BYTES]).unwrap());
            near.read_exact(&mut bytes).unwrap();
        });
        assert!(
            began.elapsed() >= 4 * delay + 2 * delay + Duration::from_millis(200),
            "{:?}",
            began.elapsed()
        );
        let carried = wan.take_carried();
        assert_eq!(flights(&carried, 0), 2);
        assert_eq!(
            carried.iter().filter(|packet| packet.to == 0).map(|packet| packet.data).sum::<usize>(),
            BYTES
        );
        wan.set(1, Wire { receives: false, ..quick });
        let limit = Duration::from_millis(300);
        assert!(wan.host(0).namespace.within(|| TcpStream::connect_timeout(&at, limit)).is_err());
    }
}

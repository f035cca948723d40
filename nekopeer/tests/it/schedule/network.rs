//! An emulated network: each host is a network namespace with one device, whose packets a thread carries with a
//! delay, or drops. Nothing of it has a name outside this process, so it is gone when the process is.

use std::{collections::VecDeque, error::Error, net::Ipv4Addr, thread::JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use testkit::lan::Namespace;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::faults::Harm;

use crate::program::*;

/// Time that a packet takes from a host to another: 50 ms there and back.
const DELAY: Duration = Duration::from_millis(25);
const PACKET_MAX: u16 = 1400;
/// The carrier looks this often whether it is to end.
const IDLE: Duration = Duration::from_millis(50);
const PORT: u16 = 7707;

type Failed = Box<dyn Error + Send + Sync>;

/// Hosts, each connected with all others. Dropping it takes the devices away.
pub(super) struct Network {
    hosts: Vec<Host>,
    wires: Arc<Wires>,
    carrier: Option<JoinHandle<()>>,
}

#[derive(Clone)]
pub(super) struct Host {
    pub(super) addr: SocketAddr,
    pub(super) namespace: Namespace,
}

#[derive(Default)]
struct Wires {
    /// What the wire of each host does to packets at the moment.
    harms: Mutex<Vec<Option<Harm>>>,
    is_over: AtomicBool,
}

impl Network {
    pub(super) fn of(count: u8) -> Result<Self, Failed> {
        let made = (0..count).map(host).collect::<Result<Vec<_>, _>>()?;
        let (hosts, devices): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let wires = Arc::new(Wires::default());
        wires.harms.lock().unwrap().resize(hosts.len(), None);
        let carrier = thread::spawn({
            let wires = Arc::clone(&wires);
            move || wires.carry(&devices)
        });
        Ok(Self { hosts, wires, carrier: Some(carrier) })
    }

    pub(super) fn host(&self, number: usize) -> Host {
        self.hosts[number].clone()
    }

    /// From now on the wire of this host does this, or nothing wrong.
    pub(super) fn set(&self, host: usize, harm: Option<Harm>) {
        self.wires.harms.lock().unwrap()[host] = harm;
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.wires.is_over.store(true, Ordering::Relaxed);
        if let Some(carrier) = self.carrier.take() {
            drop(carrier.join()); // it panicked, and the test failed for want of answers
        }
    }
}

fn host(number: u8) -> Result<(Host, SyncDevice), Failed> {
    let namespace = Namespace::new()?;
    let addr = Ipv4Addr::new(10, 77, 0, number + 1);
    let device = namespace
        .within(|| DeviceBuilder::new().name("tun0").mtu(PACKET_MAX).ipv4(addr, 24, None).build_sync())?;
    device.set_nonblocking(true)?;
    Ok((Host { addr: SocketAddr::from((addr, PORT)), namespace }, device))
}

impl Wires {
    /// Carries packets until the network is dropped. All take equally long, so that they stay in order.
    fn carry(&self, devices: &[SyncDevice]) {
        let mut packet = [0; PACKET_MAX as usize];
        let mut under_way: VecDeque<(Instant, usize, Vec<u8>)> = VecDeque::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let due = under_way.front().map(|(due, ..)| due.saturating_duration_since(Instant::now()));
            let wait = Timespec::try_from(due.unwrap_or(IDLE)).unwrap();
            let mut polled: Vec<_> =
                devices.iter().map(|device| PollFd::new(device, PollFlags::IN)).collect();
            poll(&mut polled, Some(&wait)).unwrap();
            for (from, device) in devices.iter().enumerate() {
                while let Ok(len) = device.recv(&mut packet) {
                    let to = destination(&packet[..len]).filter(|to| *to < devices.len());
                    if let Some(to) = to.filter(|to| self.passes(from, *to)) {
                        under_way.push_back((Instant::now() + DELAY, to, packet[..len].to_vec()));
                    }
                }
            }
            while under_way.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
                if let Some((_, to, packet)) = under_way.pop_front() {
                    drop(devices[to].send(&packet)); // what its queue does not take is lost, as elsewhere
                }
            }
        }
    }

    fn passes(&self, from: usize, to: usize) -> bool {
        let harms = self.harms.lock().unwrap();
        !matches!(harms[from], Some(Harm::Cut | Harm::Mute))
            && !matches!(harms[to], Some(Harm::Cut | Harm::Deaf))
    }
}

/// The number of the host that an IPv4 packet is for; nothing else is carried.
fn destination(packet: &[u8]) -> Option<usize> {
    let is_ipv4 = packet.first()? >> 4 == 4;
    let [10, 77, 0, host] = packet.get(16..20)? else { return None };
    is_ipv4.then(|| usize::from(*host).checked_sub(1)).flatten()
}

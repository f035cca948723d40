//! Three indexers in a line, each a process of its own: in networks of their own that are joined by pairs of virtual
//! Ethernet devices, or on loopback. The networks have no name: they are gone when the processes are.

use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use nix::sched::{CloneFlags, unshare};
use testkit::network::ANY_PORT;

use crate::cluster::client::Client;
use crate::cluster::deployment::Deployment;
use crate::node::{Role, process::Launch, process::Process};

/// Indexers, each of which names those beside it as neighbors.
pub(crate) const HOPS: usize = PASSED_ON as usize + 1;
/// How often each message is passed on.
pub(crate) const PASSED_ON: u8 = 2;
/// Where each listens in its own network.
const PORT: u16 = 7707;
/// The network between this process and the last indexer; that before indexer n has number n.
const LAST: u8 = 200;

pub(crate) struct Stand {
    pub(crate) nodes: Vec<Process>,
    /// Where the first and the last are reached from here, and where a client is that is listed there.
    ends: [(SocketAddr, SocketAddr); 2],
    /// Networks of which one end is here.
    networks: Vec<u8>,
}

/// Gives the calling thread, and what it starts, a network of its own.
pub(crate) fn leave_network() -> anyhow::Result<()> {
    // Tried first in a process that ends at once: a thread cannot return to the network that it left.
    let veth = ["--net", "--", "ip", "link", "add", "near", "type", "veth", "peer", "name", "far"];
    run(Command::new("unshare").args(veth))?;
    run(Command::new("nsenter").arg("--version"))?;
    unshare(CloneFlags::CLONE_NEWNET).context("no right to make networks")?;
    ip(None, &["link", "set", "lo", "up"])
}

impl Stand {
    /// Starts the indexers, each in a network of its own or on loopback; what they log at `log` goes into `folder`.
    pub(crate) async fn start(
        deployment: &Deployment,
        own_networks: bool,
        log: Option<&str>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let mut nodes: Vec<Process> = Vec::new();
        let (kept, addrs) = deployment.ports(HOPS)?;
        for (n, addr) in addrs.iter().enumerate() {
            let at = u8::try_from(n)?;
            let before = (n > 0).then(|| if own_networks { place(at, 1) } else { addrs[n - 1] });
            let after = (n + 1 < HOPS).then(|| if own_networks { place(at + 1, 2) } else { addrs[n + 1] });
            let neighbors = before.into_iter().chain(after).collect();
            let role = Role::Indexer { neighbors, flood: false, by_default: false };
            let options = crate::node::Options { log: log.map(str::to_owned), ..deployment.options(role) };
            let stderr = log.map(|_| File::create(folder.join(format!("{n}.log")))).transpose()?;
            let listen = if own_networks { (Ipv4Addr::UNSPECIFIED, PORT).into() } else { *addr };
            let launch = Launch { own_network: own_networks, stderr };
            let node = Process::launch(format!("indexer {}", n + 1), listen, &options, launch).await?;
            if own_networks {
                join(nodes.last(), &node, at)?;
            }
            nodes.push(node);
        }
        drop(kept);
        let (first, last) = (&nodes[0], &nodes[HOPS - 1]);
        let ends = if own_networks {
            join(None, last, LAST)?;
            [0, LAST].map(|network| (place(network, 2), (place(network, 1).ip(), 0).into()))
        } else {
            [first, last].map(|node| (node.addr, ANY_PORT))
        };
        let networks = if own_networks { vec![0, LAST] } else { Vec::new() };
        Ok(Self { nodes, ends, networks })
    }

    /// A peer at the first indexer, or at the last.
    pub(crate) async fn client(&self, at_last: bool, deployment: &Deployment) -> anyhow::Result<Client> {
        let (addr, at) = self.ends[usize::from(at_last)];
        Client::connect_at(at, addr, nekoproto::Identity::generate(), deployment.security).await
    }

    /// Ends the indexers. The devices of this thread's network are taken away at once: the system does so later.
    pub(crate) async fn stop(self) {
        for network in self.networks {
            let _ = ip(None, &["link", "del", &format!("near{network}")]); // it may be gone already
        }
        for node in self.nodes {
            node.kill().await;
        }
    }
}

/// The address of one end of a network: 1 is nearer to the sender.
fn place(network: u8, end: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 77, network, end), PORT).into()
}

/// Joins the network of `one`, or that of this thread, with that of `other`.
fn join(one: Option<&Process>, other: &Process, network: u8) -> anyhow::Result<()> {
    let pid = |node: &Process| node.id().with_context(|| format!("{} has ended", node.label));
    let (one, other) = (one.map(pid).transpose()?, pid(other)?);
    let [near, far] = [format!("near{network}"), format!("far{network}")];
    let there = other.to_string();
    ip(one, &["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &there])?;
    for (pid, device, end) in [(one, &near, 1), (Some(other), &far, 2)] {
        let addr = format!("{}/24", place(network, end).ip());
        ip(pid, &["addr", "add", &addr, "dev", device])?;
        ip(pid, &["link", "set", device, "up"])?;
        ip(pid, &["link", "set", "lo", "up"])?;
    }
    Ok(())
}

/// Runs `ip` in the network of process `pid`, or of this thread.
fn ip(pid: Option<u32>, args: &[&str]) -> anyhow::Result<()> {
    let mut command = match pid {
        Some(pid) => {
            let mut there = Command::new("nsenter");
            there.arg(format!("--net=/proc/{pid}/ns/net")).arg("ip");
            there
        }
        None => Command::new("ip"),
    };
    run(command.args(args))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let line = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    let done = command.output().with_context(|| format!("cannot run {line}"))?;
    ensure!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

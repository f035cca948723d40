//! A local network on one machine: each host is a network namespace, and a switch joins those of one network, so that
//! multicast works. Host 2 is 10.66.0.2 and fd66::2 on the first network, 10.67.0.2 and fd67::2 on the second. It needs
//! root, `ip`, `nft` and `nsenter`. Nothing has a name outside this process, so that tests run side by side, and all is
//! gone when the last holder of a host is: the [`Lan`], or a program that runs there.

mod changes;
mod namespace;
#[cfg(test)]
mod tests;
mod wan;

use std::{collections::BTreeMap, fmt::Write as _};

pub use self::{
    changes::Cable,
    namespace::Namespace,
    wan::{Host, Packet, Wan, Wire, flights},
};

use crate::{LOOK_EVERY, machine::NETWORKS, prelude::*};

/// A switched-on device takes no longer on any machine.
const CONNECTED_WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Lan {
    hosts: BTreeMap<u8, Namespace>,
    networks: Vec<Vec<u8>>,
    /// All switches, which do not know of each other.
    switches: Namespace,
}

impl Lan {
    /// Networks of these hosts, which are numbered from 1; `None` where this machine allows none. The router of a network is not there: what is sent elsewhere is lost.
    pub fn of<const N: usize>(networks: [&[u8]; N]) -> Option<Self> {
        NETWORKS.or_left_out(Self::new(networks.map(<[u8]>::to_vec).to_vec()))
    }

    pub(crate) fn new(networks: Vec<Vec<u8>>) -> Result<Self, String> {
        let mut lan = Self { hosts: BTreeMap::new(), networks, switches: Namespace::new()? };
        lan.switches.tell("nft", &["list", "ruleset"], "")?;
        let mut wiring = String::new();
        for (network, hosts) in lan.networks.iter().enumerate() {
            let _ = writeln!(wiring, "link add br{network} type bridge mcast_snooping 0");
            let _ = writeln!(wiring, "link set br{network} up");
            for host in hosts {
                if !lan.hosts.contains_key(host) {
                    lan.hosts.insert(*host, Namespace::new()?);
                }
                let (port, there) = (port(network, *host), lan.hosts[host].path());
                let _ = writeln!(wiring, "link add {port} type veth peer name e{network} netns {there}");
                let _ = writeln!(wiring, "link set {port} master br{network} up");
            }
        }
        lan.switches.tell("ip", &["-batch", "-"], &wiring)?;
        for (host, namespace) in &lan.hosts {
            let networks = lan.networks_of(*host);
            let lines =
                networks.map(|network| format!("link set e{network} up\n{}", addresses(network, *host)));
            namespace.tell("ip", &["-batch", "-"], &lines.collect::<String>())?;
        }
        for host in lan.hosts.keys() {
            lan.networks_of(*host).try_for_each(|network| lan.wait_until_connected(network, *host))?;
        }
        Ok(lan)
    }

    fn networks_of(&self, host: u8) -> impl Iterator<Item = usize> {
        (0..self.networks.len()).filter(move |network| self.networks[*network].contains(&host))
    }

    /// A device that was switched on takes up to a second until packets pass; those before are lost.
    fn wait_until_connected(&self, network: usize, host: u8) -> Result<(), String> {
        let (port, device) = (port(network, host), format!("e{network}"));
        let began = Instant::now();
        loop {
            let near = self.host(host).tell("ip", &["-brief", "link", "show", "dev", &device], "")?;
            let far = self.switches.tell("bridge", &["-oneline", "link", "show", "dev", &port], "")?;
            if near.contains(" UP ") && far.contains(" state forwarding ") {
                return Ok(());
            }
            if began.elapsed() > CONNECTED_WITHIN {
                return Err(format!("host {host} is not connected: {near}, {far}"));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    pub fn host(&self, number: u8) -> &Namespace {
        self.hosts.get(&number).unwrap_or_else(|| panic!("there is no host {number}"))
    }
}

/// The device of the switch of `network` where the cable of `host` is.
fn port(network: usize, host: u8) -> String {
    format!("p{network}h{host}")
}

fn addresses(network: usize, number: u8) -> String {
    let net = 66 + network;
    format!(
        "addr add 10.{net}.0.{number}/24 dev e{network}
        addr add fd{net}::{number}/64 dev e{network} nodad
        route append default via 10.{net}.0.254 dev e{network}
        "
    )
}

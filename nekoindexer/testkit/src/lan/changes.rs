//! What happens to the hosts of a network: firewalls, address translators, other addresses, a cable that is out.

use std::fs;

use super::{CONNECTED_WITHIN, Lan, addresses, port};
use crate::{LOOK_EVERY, prelude::*};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cable {
    /// Nothing passes; the host has its addresses, and sees that it is not connected.
    Out,
    In,
}

impl Lan {
    /// This host accepts no TCP connection of another; the replies to its own pass.
    pub fn firewall(&self, host: u8) {
        self.rule(
            host,
            "table inet firewall {
                chain input {
                    type filter hook input priority 0
                    iif != lo tcp flags & (syn | ack) == syn drop
                }
            }",
        );
    }

    /// This host translates addresses: to its first network, the hosts of its other networks are this host, and nobody
    /// there reaches them by a connection of its own.
    pub fn translate(&self, host: u8) {
        self.host(host).within(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
        let first = self.networks_of(host).next().unwrap();
        let device = format!("e{first}");
        self.rule(
            host,
            &format!(
                "table ip translator {{
                    chain translated {{
                        type nat hook postrouting priority 100
                        oif {device} masquerade
                    }}
                    chain forwarded {{
                        type filter hook forward priority 0
                        iif {device} ct state new drop
                    }}
                }}"
            ),
        );
        for network in self.networks_of(host).skip(1) {
            for inner in self.networks[network].iter().filter(|inner| **inner != host) {
                self.ip(*inner, &format!("route replace default via 10.{}.0.{host}\n", 66 + network));
            }
        }
    }

    /// This host has the addresses of another number on the first network from now on, as from a DHCP server.
    pub fn move_to(&self, host: u8, number: u8) {
        self.ip(host, &format!("addr flush dev e0 scope global\n{}", addresses(0, number)));
    }

    /// This host has no addresses but those of the link itself, as on a cable between two machines without a DHCP server.
    pub fn forget_addresses(&self, host: u8) {
        self.ip(host, "addr flush dev e0 scope global\n");
        let began = Instant::now();
        let tentative = ["-6", "addr", "show", "dev", "e0", "tentative"];
        while !self.host(host).tell("ip", &tentative, "").unwrap().is_empty() {
            assert!(began.elapsed() < CONNECTED_WITHIN, "host {host} has no address of its link");
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The cable of this host to the first network is pulled out or plugged in, at the switch.
    pub fn cable(&self, host: u8, to: Cable) {
        let state = if to == Cable::In { "up" } else { "down" };
        let line = ["link", "set", &port(0, host), state];
        let set = self.switches.tell("ip", &line, "");
        let set = set.and_then(|_| if to == Cable::In { self.wait_until_connected(0, host) } else { Ok(()) });
        set.unwrap_or_else(|why| panic!("{why}"));
    }

    pub(super) fn ip(&self, host: u8, lines: &str) {
        let told = self.host(host).tell("ip", &["-batch", "-"], lines);
        told.unwrap_or_else(|why| panic!("host {host}: {why}"));
    }

    fn rule(&self, host: u8, table: &str) {
        let told = self.host(host).tell("nft", &["-f", "-"], table);
        told.unwrap_or_else(|why| panic!("host {host}: {why}"));
    }
}

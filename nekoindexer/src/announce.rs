//! Announces an indexer to its network by multicast DNS, and hears of others.
//!
//! An announcement is a hint: whoever uses it connects only where the announced key is proved. What listens on a
//! loopback address is not announced, as nobody who hears it could reach it.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use mdns_sd::{IfKind, IfPredicate, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use nekoproto::{IndexerAddr, NetworkName, NodeId, PROTOCOL_VERSION, transport::interfaces};
use tokio::time::{Instant, sleep};
use tracing::debug;

const SERVICE: &str = "_nekop2p._tcp.local.";
/// Indexers that one search returns at most, and addresses of each.
pub const HEARD_MAX: usize = 16;
const ADDRESSES_MAX: usize = 4;
/// Announcements that one search looks at.
const LOOKED_AT_MAX: usize = 1024;
/// How long a search goes on after the first indexer, to hear of its neighbors.
const GRACE: Duration = Duration::from_millis(100);
/// Interval between looks at what was heard.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Keys of the announcement's text.
const NETWORK: &str = "network";
const KEY: &str = "key";
const VERSION: &str = "protocol";
const INSECURE: &str = "insecure";

/// An announcement, until dropped. It is then taken back, if that is still possible.
#[derive(Debug)]
pub struct Announcement {
    daemon: Daemon,
    fullname: String,
}

/// A thread of the multicast library; ends when this is dropped.
struct Daemon(ServiceDaemon);

/// Announces the indexer `node` that listens on `listens_on`, until the result is dropped. `None` where nobody could
/// reach it, or multicast does not work; the latter is logged.
#[must_use]
pub fn announce(
    node: NodeId,
    listens_on: SocketAddr,
    network: &NetworkName,
    insecure: bool,
) -> Option<Announcement> {
    let (ip, port) = (listens_on.ip(), listens_on.port());
    if ip.is_loopback() {
        return None;
    }
    let announced = Daemon::start().and_then(|daemon| {
        let text = text(node, network, insecure);
        let name = node.short();
        let host = format!("neko-{name}.local.");
        let mut info = match ip.is_unspecified() {
            true => ServiceInfo::new(SERVICE, &name, &host, "", port, &text[..])?.enable_addr_auto(),
            false => ServiceInfo::new(SERVICE, &name, &host, ip, port, &text[..])?,
        };
        let is_listened_on =
            move |interface: &if_addrs::Interface| match (ip.is_unspecified(), interface.ip()) {
                (false, other) => other == ip,
                (true, IpAddr::V6(other)) if other.is_unicast_link_local() => {
                    ip.is_ipv6() && interfaces::addresses().contains(&other.into())
                }
                (true, other @ IpAddr::V6(_)) => ip.is_ipv6() && interfaces::is_of_network(&other),
                (true, other) => interfaces::is_of_network(&other),
            };
        info.set_interfaces(vec![IfKind::Predicate(IfPredicate::new(is_listened_on))]);
        let fullname = info.get_fullname().to_owned();
        daemon.0.register(info)?;
        Ok(Announcement { daemon, fullname })
    });
    announced.inspect_err(|error| debug!(%error, "the indexer is not announced")).ok()
}

fn text(node: NodeId, network: &NetworkName, insecure: bool) -> [(&'static str, String); 4] {
    [
        (NETWORK, network.to_string()),
        (KEY, node.to_string()),
        (VERSION, PROTOCOL_VERSION.to_string()),
        (INSECURE, u8::from(insecure).to_string()),
    ]
}

/// Indexers of this network that `is_wanted`, in the order in which they were heard, each at all addresses where
/// others than those on its own machine may reach it. Ends soon after the first one, or after `within`. Empty at once
/// on a machine without a network.
///
/// # Cancel safety
/// Safe.
pub async fn browse(
    network: &NetworkName,
    insecure: bool,
    is_wanted: impl Fn(&IndexerAddr) -> bool,
    within: Duration,
) -> Vec<IndexerAddr> {
    let mut heard = Vec::new();
    if interfaces::addresses().is_empty() {
        return heard;
    }
    let browsing = Daemon::start().and_then(|daemon| Ok((daemon.0.browse(SERVICE)?, daemon)));
    let (events, _daemon) = match browsing {
        Ok(browsing) => browsing,
        Err(error) => {
            debug!(%error, "announcements cannot be heard");
            return heard;
        }
    };
    let (mut until, mut indexers, mut looked_at) = (Instant::now() + within, 0, 0);
    while Instant::now() < until && indexers < HEARD_MAX && looked_at < LOOKED_AT_MAX {
        let Ok(event) = events.try_recv() else {
            sleep(LOOK_EVERY).await;
            continue;
        };
        looked_at += 1;
        let ServiceEvent::ServiceResolved(service) = event else { continue };
        let found = fitting(&service, network, insecure);
        debug!(name = service.get_fullname(), fits = !found.is_empty(), "heard an announcement");
        // Somebody else may announce the same key: that counts nothing against whoever can prove it.
        let before = heard.len();
        for at in found {
            if is_wanted(&at) && !heard.contains(&at) {
                heard.push(at);
            }
        }
        if heard.len() > before {
            indexers += 1;
            until = until.min(Instant::now() + GRACE);
        }
    }
    heard
}

/// The addresses of an announced indexer that belongs to this network; none of another.
fn fitting(service: &ResolvedService, network: &NetworkName, insecure: bool) -> Vec<IndexerAddr> {
    let said = |key| service.get_property_val_str(key).unwrap_or_default();
    let Ok(node) = said(KEY).parse::<NodeId>() else { return Vec::new() };
    let expected = text(node, network, insecure);
    if expected.iter().any(|(key, value)| said(key) != value) || service.get_port() == 0 {
        return Vec::new();
    }
    let mut ips = interfaces::reachable(service.get_addresses().iter().map(mdns_sd::ScopedIp::to_ip_addr));
    ips.sort_unstable_by_key(|ip| (ip.is_ipv6(), *ip));
    ips.truncate(ADDRESSES_MAX);
    ips.into_iter().map(|ip| IndexerAddr { addr: SocketAddr::new(ip, service.get_port()), node }).collect()
}

impl Daemon {
    fn start() -> mdns_sd::Result<Self> {
        ServiceDaemon::new().map(Self)
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Daemon")
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // What is not taken back expires at those who heard it; a program that ends does not wait for that.
        drop(self.daemon.0.unregister(&self.fullname));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.0.shutdown()); // it fails only where the thread has ended
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Identity;

    use super::*;

    fn service(addrs: &str, port: u16, text: &[(&str, String)]) -> ResolvedService {
        ServiceInfo::new(SERVICE, "x", "x.local.", addrs, port, text).unwrap().as_resolved_service()
    }

    #[test]
    fn only_announcements_of_the_own_network_and_protocol_count() {
        let node = Identity::from_seed(&[1; 32]).id();
        let (network, other) = (NetworkName::default(), NetworkName::try_from("other".to_owned()).unwrap());
        let all = "192.0.2.7,127.0.0.1,169.254.1.1,2001:db8::7,fe80::1,::1";
        let text = text(node, &network, false);
        let heard = |service: &ResolvedService| {
            fitting(service, &network, false).iter().map(|at| at.addr.to_string()).collect::<Vec<_>>()
        };
        let good = service(all, 7707, &text);
        assert_eq!(heard(&good), ["192.0.2.7:7707", "[2001:db8::7]:7707"]);
        assert!(fitting(&good, &other, false).is_empty() && fitting(&good, &network, true).is_empty());
        assert!(heard(&service(all, 0, &text)).is_empty());
        for (place, wrong) in [(1, "00"), (1, ""), (2, "7"), (3, "2"), (0, "Nekop2p")] {
            let mut text = text.clone();
            text[place].1 = wrong.to_owned();
            assert!(heard(&service(all, 7707, &text)).is_empty(), "{text:?}");
        }
        assert!(heard(&service(all, 7707, &text[..2])).is_empty(), "keys are missing");
        let many = (1..100).map(|n| format!("192.0.2.{n}")).collect::<Vec<_>>().join(",");
        assert_eq!(heard(&service(&many, 1, &text)).len(), ADDRESSES_MAX);
    }

    #[test]
    fn what_listens_on_loopback_is_not_announced() {
        let node = Identity::from_seed(&[1; 32]).id();
        for addr in ["127.0.0.1:1", "[::1]:1"] {
            let told = announce(node, addr.parse().unwrap(), &NetworkName::default(), false);
            assert!(told.is_none(), "{addr}");
        }
    }
}

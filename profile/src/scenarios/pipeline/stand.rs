//! Three indexers in a line, each a process of its own: in networks of their own that are joined by pairs of virtual
//! Ethernet devices, or on loopback. The networks have no name: they are gone when whoever made them is.

use std::net::Ipv4Addr;

use anyhow::Error;

use crate::scenarios::prelude::*;

/// Indexers, each of which names those beside it as neighbors.
pub(crate) const HOPS: usize = PASSED_ON as usize + 1;
/// How often each message is passed on.
pub(crate) const PASSED_ON: u8 = 2;
/// Where each listens in its own network.
const PORT: u16 = 7707;
/// The network between this process and the last indexer; that before indexer n has number n.
const LAST: u8 = 200;

pub(crate) struct Stand {
    pub(crate) net: Net,
    /// Where the first and the last are reached from here, and where a client is that is listed there.
    ends: [(SocketAddr, SocketAddr); 2],
    /// This thread's network, of which devices lead to both ends.
    here: Option<Namespace>,
}

/// Gives the calling thread, and what it starts, a network of its own.
pub(crate) fn leave_network() -> Result<Namespace> {
    let here = Namespace::new().map_err(Error::msg)?;
    // Tried before: the thread cannot return to the network that it left.
    let pair = "link add near type veth peer name far\nlink del near";
    here.tell("ip", &["-batch", "-"], pair).and_then(|_| here.enter()).map_err(Error::msg)?;
    Ok(here)
}

impl Stand {
    /// Starts the indexers, each in a network of its own if this thread is `here`, or else on loopback.
    pub(crate) async fn start(on: &Deployment, here: Option<&Namespace>) -> Result<Self> {
        let (kept, mut places) = Net::places(on, &Graph::line(HOPS), 0)?;
        places.iter_mut().zip(1..).for_each(|(place, n)| place.label = format!("indexer {n}"));
        if let Some(here) = here {
            let mut before = here.clone();
            for (place, n) in places.iter_mut().zip(0u8..) {
                let host = Namespace::new().map_err(Error::msg)?;
                join(&before, &host, n)?;
                place.listen = (Ipv4Addr::UNSPECIFIED, PORT).into();
                let before_it = (n > 0).then(|| end_of(n, 1));
                let after_it = (n < PASSED_ON).then(|| end_of(n + 1, 2));
                place.neighbors = before_it.into_iter().chain(after_it).collect();
                place.host = Some(host.clone());
                before = host;
            }
            join(here, &before, LAST)?;
        }
        let net = Net::of(on, places).await?;
        drop(kept);
        let ends = match here {
            Some(_) => [0, LAST].map(|network| (end_of(network, 2), (end_of(network, 1).ip(), 0).into())),
            None => [0, HOPS - 1].map(|n| (net.addr(n), ANY_PORT)),
        };
        Ok(Self { net, ends, here: here.cloned() })
    }

    /// A peer at the first indexer, or at the last.
    pub(crate) async fn client(&self, at_last: bool) -> Result<Client> {
        let (addr, at) = self.ends[usize::from(at_last)];
        let security = self.net.deployment.security;
        Client::connect(at, addr, nekoproto::Identity::generate(), security).await
    }

    /// Ends the indexers. The devices of this thread's network are taken away at once: the system does so later.
    pub(crate) async fn stop(self) {
        for (here, network) in self.here.iter().flat_map(|here| [(here, 0), (here, LAST)]) {
            let _ = here.tell("ip", &["link", "del", &format!("near{network}")], ""); // it may be gone already
        }
        self.net.stop().await;
    }
}

/// The address of one end of a network: 1 is nearer to the sender.
fn end_of(network: u8, end: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 77, network, end), PORT).into()
}

fn join(one: &Namespace, other: &Namespace, network: u8) -> Result<()> {
    let there = other.path();
    let pair = format!("link add near{network} type veth peer name far{network} netns {there}");
    one.tell("ip", &["-batch", "-"], &pair).map_err(Error::msg)?;
    for (host, device, end) in [(one, "near", 1), (other, "far", 2)] {
        let addr = end_of(network, end).ip();
        let up = format!("addr add {addr}/24 dev {device}{network}\nlink set {device}{network} up");
        host.tell("ip", &["-batch", "-"], &up).map_err(Error::msg)?;
    }
    Ok(())
}

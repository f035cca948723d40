//! What this peer says to one indexer of where it can be reached.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{Refusal, VerifiedReach, clock, transport::Endpoint};

/// A new statement is made this often: long before the last one expires, however far the clocks may be apart.
const AGAIN_AFTER: Duration = Duration::from_secs(6 * 3600);
const _: () =
    assert!(AGAIN_AFTER.as_secs() + nekoproto::CLOCKS_APART_MAX.as_secs() < nekoproto::REACH_FOR.as_secs());

/// The statements of one session.
pub(super) struct Introduction {
    endpoint: Arc<Endpoint>,
    /// Where the indexer reaches this peer; none if it does not.
    addrs: Vec<SocketAddr>,
    /// When the indexer took the last one.
    taken: Option<Instant>,
}

impl Introduction {
    /// For a connection over which the other end reaches this peer `at`.
    pub(super) fn new(endpoint: &Arc<Endpoint>, at: Option<SocketAddr>) -> Self {
        Self { endpoint: Arc::clone(endpoint), addrs: at.into_iter().collect(), taken: None }
    }

    /// What is to be said now, if anything.
    pub(super) fn due(&self) -> Option<VerifiedReach> {
        let is_due = self.taken.is_none_or(|taken| clock::now() - taken >= AGAIN_AFTER);
        let addrs = self.addrs.iter().copied();
        (is_due && !self.addrs.is_empty()).then(|| self.endpoint.identity().fresh_reach(addrs))
    }

    /// The indexer's answer to it. If it sees another address, as the connection is translated on its way, that one is
    /// said next.
    pub(super) fn taken(&mut self, answer: nekoproto::Introduction) -> Result<(), Refusal> {
        if answer.listed_at != 0 {
            self.taken = Some(clock::now());
            return Ok(());
        }
        match self.addrs[..] {
            [addr] if addr.ip() != answer.seen_at => {
                self.addrs.insert(0, SocketAddr::new(answer.seen_at, addr.port()));
                Ok(())
            }
            _ => Err(Refusal::NotListening),
        }
    }

    /// Whether the indexer can list this peer.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.taken.map(drop).ok_or(Refusal::NotListening)
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{Identity, Role, transport::EndpointConfig};

    use super::*;

    fn introduction(at: &[SocketAddr]) -> Introduction {
        let config = EndpointConfig {
            identity: Identity::from_seed(&[1; 32]),
            role: Role::Peer,
            network: Default::default(),
            security: Default::default(),
            access: Default::default(),
        };
        Introduction::new(&Endpoint::new(config).unwrap(), at.first().copied())
    }

    fn answer(seen_at: [u8; 4], listed_at: u8) -> nekoproto::Introduction {
        nekoproto::Introduction { seen_at: seen_at.into(), listed_at }
    }

    #[test]
    fn a_translated_address_is_said_beside_the_own_one() {
        let (here, outside) = (([10, 0, 0, 1], 4000).into(), ([192, 0, 2, 1], 4000).into());
        let mut introduction = introduction(&[here]);
        assert_eq!(introduction.due().unwrap().addrs[..], [here]);
        introduction.taken(answer([192, 0, 2, 1], 0)).unwrap();
        assert_eq!(introduction.due().unwrap().addrs[..], [outside, here]);
        introduction.taken(answer([192, 0, 2, 1], 1)).unwrap();
        assert!(introduction.due().is_none() && introduction.check().is_ok());
    }

    #[test]
    fn nobody_is_listed_where_it_does_not_listen_or_is_not_seen() {
        let none = introduction(&[]);
        assert!(none.due().is_none() && none.check() == Err(Refusal::NotListening));
        let mut refused = introduction(&[([10, 0, 0, 1], 4000).into()]);
        assert_eq!(refused.taken(answer([10, 0, 0, 1], 0)), Err(Refusal::NotListening));
    }
}

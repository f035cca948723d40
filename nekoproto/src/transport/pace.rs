//! [`Pace`]: how many handshakes each address gets. A handshake costs far more here than who asks for it pays.

use std::{collections::HashMap, net::IpAddr, time::Instant};

use super::places::Tenant;
use crate::limits::{HANDSHAKES_IN_A_ROW, HANDSHAKES_PER_SEC};

/// Addresses that are remembered. Beyond them those that may have a full row again are forgotten; if all of them were
/// busy just now, others are not counted.
const SITES_MAX: usize = 4096;

/// Handshakes of each address.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// What is left of each row, in handshakes, and as of when.
    left: HashMap<IpAddr, (f64, Instant)>,
}

impl Pace {
    /// Whether one of `tenant` may begin now. Nodes of this machine always may.
    pub(super) fn admits(&mut self, tenant: Tenant, now: Instant) -> bool {
        let Tenant::Site(site) = tenant else { return true };
        if self.left.len() >= SITES_MAX && !self.left.contains_key(&site) {
            self.left.retain(|_, row| !is_full(*row, now));
            if self.left.len() >= SITES_MAX {
                return true;
            }
        }
        let row = self.left.entry(site).or_insert((f64::from(HANDSHAKES_IN_A_ROW), now));
        let left = left(*row, now);
        let is_admitted = left >= 1.0;
        *row = (if is_admitted { left - 1.0 } else { left }, now);
        is_admitted
    }
}

fn left((left, since): (f64, Instant), now: Instant) -> f64 {
    let more = now.saturating_duration_since(since).as_secs_f64() * f64::from(HANDSHAKES_PER_SEC);
    (left + more).min(HANDSHAKES_IN_A_ROW.into())
}

fn is_full(row: (f64, Instant), now: Instant) -> bool {
    left(row, now) >= f64::from(HANDSHAKES_IN_A_ROW)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(text: &str) -> Tenant {
        Tenant::at(text.parse().unwrap(), None)
    }

    #[test]
    fn one_address_has_its_row_and_its_rate_and_others_theirs() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let greedy = at("192.0.2.1");
        let admitted = |pace: &mut Pace, now| (0..9999).filter(|_| pace.admits(greedy, now)).count();
        assert_eq!(admitted(&mut pace, now), HANDSHAKES_IN_A_ROW as usize);
        assert!(pace.admits(at("192.0.2.2"), now));
        assert_eq!(admitted(&mut pace, now + Duration::from_secs(1)), HANDSHAKES_PER_SEC as usize);
        assert!((0..9999).all(|_| pace.admits(at("127.0.0.1"), now)));
    }

    #[test]
    fn many_addresses_are_forgotten_again() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for n in 0..3 * u32::try_from(SITES_MAX).unwrap() {
            let addr = IpAddr::from((0xc000_0000_u32 + n).to_be_bytes());
            assert!(pace.admits(Tenant::Site(addr), now + Duration::from_millis(n.into())));
            assert!(pace.left.len() <= SITES_MAX);
        }
    }
}

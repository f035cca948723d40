//! [`PolicyChange`]: what a publish says of a file's policy; the rest stays as it is.

use nekoproto::{Mode, Policy, policy::BadPolicy};

/// The terms of a policy that are said; each other one is kept from the version before, or is the peer's
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyChange {
    /// How copies are kept coherent.
    pub mode: Option<Mode>,
    /// Seconds for which a confirmation is valid under push.
    pub lease_secs: Option<u32>,
    /// Seconds for which a confirmation is valid under pull.
    pub ttr_secs: Option<u32>,
    /// Whether a holder may serve a copy past its bound.
    pub serve_stale: Option<bool>,
}

impl PolicyChange {
    /// `policy` with these terms.
    ///
    /// # Errors
    /// A term is zero or longer than a week.
    pub fn over(self, policy: Policy) -> Result<Policy, BadPolicy> {
        Policy::new(
            self.mode.unwrap_or(policy.mode()),
            self.lease_secs.unwrap_or(policy.lease_secs()),
            self.ttr_secs.unwrap_or(policy.ttr_secs()),
            self.serve_stale.unwrap_or(policy.serve_stale()),
        )
    }
}

impl From<Policy> for PolicyChange {
    /// All terms.
    fn from(policy: Policy) -> Self {
        Self {
            mode: Some(policy.mode()),
            lease_secs: Some(policy.lease_secs()),
            ttr_secs: Some(policy.ttr_secs()),
            serve_stale: Some(policy.serve_stale()),
        }
    }
}

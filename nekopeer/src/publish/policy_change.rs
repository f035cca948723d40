//! [`PolicyChange`]: what was said about the policy of a file that is published.

use nekoproto::{Mode, Policy, policy::BadPolicy};
use serde::{Deserialize, Serialize};

/// What was said about the policy of a file. About what was not said, the file keeps its previous policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// How copies are kept coherent.
    pub mode: Option<Mode>,
    /// Seconds that a copy counts as fresh under push.
    pub lease_secs: Option<u32>,
    /// Seconds that a copy counts as fresh under pull.
    pub ttr_secs: Option<u32>,
    /// Whether a copy past its time is handed out.
    pub serve_stale: Option<bool>,
}

impl PolicyChange {
    /// This change, and where it says nothing, `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            lease_secs: self.lease_secs.or(other.lease_secs),
            ttr_secs: self.ttr_secs.or(other.ttr_secs),
            serve_stale: self.serve_stale.or(other.serve_stale),
        }
    }

    /// `previous`, changed as said.
    ///
    /// # Errors
    /// A term is outside of its limits.
    pub fn over(self, previous: Policy) -> Result<Policy, BadPolicy> {
        Policy::new(
            self.mode.unwrap_or(previous.mode()),
            self.lease_secs.unwrap_or(previous.lease_secs()),
            self.ttr_secs.unwrap_or(previous.ttr_secs()),
            self.serve_stale.unwrap_or(previous.serve_stale()),
        )
    }
}

impl From<Policy> for PolicyChange {
    /// Says everything.
    fn from(policy: Policy) -> Self {
        Self {
            mode: Some(policy.mode()),
            lease_secs: Some(policy.lease_secs()),
            ttr_secs: Some(policy.ttr_secs()),
            serve_stale: Some(policy.serve_stale()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays_as_it_was() {
        let previous = Policy::new(Mode::Push, 5, 7, false).unwrap();
        assert_eq!(PolicyChange::default().over(previous), Ok(previous));
        let change = PolicyChange { ttr_secs: Some(9), ..PolicyChange::default() };
        assert_eq!(change.over(previous), Policy::new(Mode::Push, 5, 9, false));
        assert_eq!(PolicyChange::from(Policy::default()).over(previous), Ok(Policy::default()));
        assert!(PolicyChange { lease_secs: Some(0), ..change }.over(previous).is_err());
    }
}

//! [`PolicyChange`]: what a publish says of a file's policy; the rest stays as it is.

use nekoproto::{Mode, Policy, Staleness, policy::BadPolicy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::util::json::{text, whole};

/// The terms of a policy that are said; each other one is kept from the version before, or is the peer's
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Policy)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyChange {
    /// How copies are kept coherent.
    #[schema(value_type = Option<String>, pattern = "^(push|pull|hybrid)$")]
    #[serde(with = "text::maybe")]
    pub mode: Option<Mode>,
    /// Seconds for which a confirmation is valid under push.
    #[schema(minimum = 1, maximum = 604_800)]
    #[serde(deserialize_with = "whole")]
    pub lease_secs: Option<u32>,
    /// Seconds for which a confirmation is valid under pull.
    #[schema(minimum = 1, maximum = 604_800)]
    #[serde(deserialize_with = "whole")]
    pub ttr_secs: Option<u32>,
    /// How far a copy that is read may be behind.
    #[schema(value_type = Option<String>, pattern = "^(strict|bounded|serve-stale)$")]
    #[serde(with = "text::maybe")]
    pub staleness: Option<Staleness>,
}

impl PolicyChange {
    /// These terms, and those of `other` that are not among them.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            lease_secs: self.lease_secs.or(other.lease_secs),
            ttr_secs: self.ttr_secs.or(other.ttr_secs),
            staleness: self.staleness.or(other.staleness),
        }
    }

    /// Whether no term is zero or longer than a week.
    pub(crate) fn is_valid(self) -> bool {
        self.over(Policy::default()).is_ok()
    }

    /// `policy` with these terms.
    ///
    /// # Errors
    /// A term is zero or longer than a week.
    pub fn over(self, policy: Policy) -> Result<Policy, BadPolicy> {
        let changed = Policy::new(
            self.mode.unwrap_or(policy.mode()),
            self.lease_secs.unwrap_or(policy.lease_secs()),
            self.ttr_secs.unwrap_or(policy.ttr_secs()),
            self.staleness.unwrap_or(policy.staleness()),
        )?;
        Ok(changed.of_set(policy.is_set()))
    }
}

impl From<Policy> for PolicyChange {
    /// All terms.
    fn from(policy: Policy) -> Self {
        Self {
            mode: Some(policy.mode()),
            lease_secs: Some(policy.lease_secs()),
            ttr_secs: Some(policy.ttr_secs()),
            staleness: Some(policy.staleness()),
        }
    }
}

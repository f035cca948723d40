//! Files that are shared and held here.

use nekoproto::{Record, Staleness, VerifiedRecord, Version};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::found::VersionRow;
use crate::{
    library::{
        status::{Condition, FileStatus, UNSHARED},
        subscribers::Subscribed,
    },
    peer::ReadBy,
    state::freshness::OnStale,
    storage::catalogue::Why,
    util::json::text,
};

/// A file that is shared or held here.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = File)]
pub(crate) struct FileRow {
    /// The version on disk.
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) version: VersionRow,
    /// When the origin of a copy confirmed it last, in Unix time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) confirmed_ms: Option<u64>,
    /// What speaks against the file, in words; empty if nothing does.
    pub(crate) doubt: String,
    /// Until when the copy counts as fresh for its confirmation, in Unix time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh_until_ms: Option<u64>,
    /// Whether it is the newest version: fresh, stale, unverified, unshared; or changed or
    /// missing on disk.
    pub(crate) freshness: String,
    /// How copies are kept coherent: push, pull or hybrid.
    pub(crate) mode: String,
    /// The newest later version known.
    newest: Option<u64>,
    /// Whether this peer is its origin.
    pub(crate) own: bool,
    pub(crate) path: String,
    /// When it was last read here or served since the peer started, in Unix time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_at_ms: Option<u64>,
    /// How far a copy that is read may be behind: strict, bounded or serve-stale.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub(crate) staleness: Staleness,
    /// Only of a file that was asked about by its name.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Detail)]
    pub(crate) detail: Option<Detail>,
}

/// What else is known of a file that was asked about by name.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = FileDetail)]
pub(crate) struct Detail {
    /// Seconds that its copy counts as fresh here at most, where the user of this peer has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bound_secs: Option<u32>,
    /// The same as `kept`, with what is known of each.
    #[schema(required = false)]
    pub(crate) earlier: Vec<EarlierRow>,
    /// Earlier versions that are kept here, the newest first.
    #[schema(required = false)]
    pub(crate) kept: Vec<u64>,
    /// Seconds that a copy counts as fresh under push.
    #[schema(required = false)]
    pub(crate) lease_secs: u32,
    /// What happens to an outdated copy, where the reader has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) on_stale: Option<OnStale>,
    /// Up to this version none takes the place by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passed_over: Option<u64>,
    /// Why: `failed` for the command of a follower, or `rolled-back`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passed_over_why: Option<String>,
    /// Seconds that a copy counts as fresh after its origin confirmed it: the lease, the TTR or the shorter, by `mode`.
    #[schema(required = false)]
    pub(crate) policy_bound_secs: u64,
    /// When this version was shared, in Unix time in milliseconds by its origin's clock; null if that does not say.
    #[schema(required = false)]
    pub(crate) shared_ms: Option<u64>,
    /// Of an own file: the peers that have a lease on news of it, and those that were heard in the last days.
    #[schema(required = false)]
    pub(crate) readers: Vec<ReaderRow>,
    /// Seconds that a copy counts as fresh under pull.
    #[schema(required = false)]
    pub(crate) ttr_secs: u32,
}

/// An earlier version that is kept.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Earlier)]
pub(crate) struct EarlierRow {
    /// Whether it is the last that the command of a follower refused.
    pub(crate) refused: bool,
    /// When it was shared, in Unix time in milliseconds by its origin's clock; null if that does not say.
    pub(crate) shared_ms: Option<u64>,
    pub(crate) version: u64,
}

/// A peer that reads a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Reader)]
pub(crate) struct ReaderRow {
    pub(crate) addr: String,
    /// When it was heard last, in Unix time in milliseconds; null if there were too many to note it.
    pub(crate) heard_ms: Option<u64>,
    /// The last version that it said to hold.
    pub(crate) holds: u64,
    /// What people call it, as it says; null: it did not say.
    pub(crate) label: Option<String>,
    /// Milliseconds for which an earlier version may still count as fresh there, at most; 0: it has no lease.
    pub(crate) lease_ends_in_ms: u64,
    pub(crate) node: String,
    /// The last version that it acknowledged.
    pub(crate) version: u64,
}

impl Detail {
    pub(crate) fn of(file: &FileStatus, read: ReadBy) -> Self {
        let reader = |reader: Subscribed| ReaderRow {
            addr: reader.holder.addr.to_string(),
            heard_ms: reader.heard_ms,
            holds: reader.holds.get(),
            label: reader.label.map(String::from),
            lease_ends_in_ms: u64::try_from(reader.ends_in.as_millis()).unwrap_or(u64::MAX),
            node: reader.holder.node.to_string(),
            version: reader.version.get(),
        };
        let record = &file.record;
        let passed_over = read.passed_over.filter(|passed| passed.origin == record.origin);
        let refused = passed_over.filter(|passed| passed.why == Why::Failed).map(|passed| passed.version);
        let shared_ms = |record: &Record| Some(record.published_ms).filter(|ms| *ms != 0);
        let earlier = |kept: &VerifiedRecord| EarlierRow {
            refused: refused == Some(kept.version),
            shared_ms: shared_ms(kept),
            version: kept.version.get(),
        };
        Self {
            bound_secs: read.preference.bound_secs,
            earlier: read.kept.iter().map(earlier).collect(),
            kept: read.kept.iter().map(|kept| kept.version.get()).collect(),
            lease_secs: record.policy.lease_secs(),
            on_stale: read.preference.on_stale,
            passed_over: passed_over.map(|passed| passed.version.get()),
            passed_over_why: passed_over.map(|passed| match passed.why {
                Why::Failed => "failed".to_owned(),
                Why::RolledBack => "rolled-back".to_owned(),
            }),
            policy_bound_secs: record.policy.bound().as_secs(),
            shared_ms: shared_ms(record),
            readers: read.readers.into_iter().filter(|_| file.own).map(reader).collect(),
            ttr_secs: record.policy.ttr_secs(),
        }
    }
}

impl From<&FileStatus> for FileRow {
    fn from(file: &FileStatus) -> Self {
        let FileStatus { record, path, confirmed, own, condition, newest, read_at_ms } = file;
        Self {
            version: record.into(),
            confirmed_ms: confirmed.map(|confirmed| confirmed.at_ms),
            doubt: doubt(*condition, *newest),
            fresh_until_ms: confirmed.map(|confirmed| confirmed.until_ms),
            freshness: condition.to_string(),
            mode: record.policy.mode().to_string(),
            newest: newest.map(Version::get),
            own: *own,
            path: path.to_string_lossy().into_owned(),
            read_at_ms: *read_at_ms,
            staleness: record.policy.staleness(),
            detail: None,
        }
    }
}

fn doubt(condition: Condition, newest: Option<Version>) -> String {
    match (newest, condition) {
        (Some(newest), Condition::Unshared) => {
            format!("its origin unshared it as version {newest}")
        }
        (Some(newest), _) => format!("version {newest} is out"),
        (None, Condition::Unshared) => UNSHARED.to_owned(),
        (None, _) => String::new(),
    }
}

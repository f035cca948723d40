//! What was found under a name.

use nekoproto::{FileName, Holder, VerifiedRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    indexers::{Answer, Found},
    library::status::FileStatus,
    state::choice::Candidate,
};

/// One version of a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Version)]
pub(crate) struct VersionRow {
    /// BLAKE3 of the file, in hexadecimal digits.
    pub(crate) content: String,
    #[schema(value_type = String)]
    pub(crate) name: FileName,
    /// The id of the peer that shares it.
    pub(crate) origin: String,
    /// Whether it is a folder, all of which is one version.
    pub(crate) set: bool,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) version: u64,
}

/// What was found under one name.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Answer)]
pub(crate) struct FoundRow {
    /// Whether every indexer in reach answered.
    pub(crate) complete: bool,
    /// Whether guests of an indexer may know more: they are not waited for where something was found.
    pub(crate) guests_unheard: bool,
    /// The newest version of each origin.
    pub(crate) hits: Vec<HitRow>,
    #[schema(value_type = String)]
    pub(crate) name: FileName,
}

/// The newest version of one origin, and who has it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Hit)]
pub(crate) struct HitRow {
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) version: VersionRow,
    pub(crate) holders: Vec<HolderRow>,
}

/// A file that matches a search: the newest version of one origin.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Match)]
pub(crate) struct MatchRow {
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) version: VersionRow,
    /// When it was shared, in Unix time in milliseconds; null if its origin does not say.
    pub(crate) shared_ms: Option<u64>,
    /// Who has it.
    pub(crate) holders: Vec<HolderRow>,
    /// What is shared or held here of it.
    pub(crate) held: Option<HeldRow>,
}

/// Files that match a search.
#[derive(Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct Matches {
    // They are told as rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = true)]
    pub(crate) hits: Vec<MatchRow>,
    /// Whether every indexer in reach answered.
    pub(crate) complete: bool,
    /// Whether guests of an indexer may know more: they are waited for 250 ms longer than the others.
    pub(crate) guests_unheard: bool,
    /// How many are in reach, and how many of them answered.
    pub(crate) indexers: IndexersRow,
    /// What was looked for.
    pub(crate) name: String,
    /// Give this as `after` to go on; null after the last match.
    pub(crate) next: Option<String>,
}

/// The indexers that a search reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Indexers)]
pub(crate) struct IndexersRow {
    /// Those that are known to be in reach; nobody knows who is behind one that is silent.
    pub(crate) asked: usize,
    /// Of these, those whose answer counts.
    pub(crate) answered: usize,
}

impl IndexersRow {
    /// Those of the page where more are missing, as each page is a search of its own.
    pub(crate) fn or_worse(self, page: &Found) -> Self {
        let other = Self { asked: page.asked, answered: page.answered };
        let is_worse = other.asked - other.answered >= self.asked - self.answered;
        if is_worse { other } else { self }
    }
}

/// The version that is here.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Held)]
pub(crate) struct HeldRow {
    /// As in the catalogue.
    pub(crate) freshness: String,
    /// Whether this peer shares it.
    pub(crate) own: bool,
    pub(crate) version: u64,
}

/// A peer that has a version, or a part of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Holder)]
pub(crate) struct HolderRow {
    /// Where it serves.
    pub(crate) addr: String,
    /// Its id.
    pub(crate) node: String,
    /// Whether it has only a part.
    pub(crate) partial: bool,
}

impl From<&VerifiedRecord> for VersionRow {
    fn from(record: &VerifiedRecord) -> Self {
        Self {
            content: record.content.to_string(),
            name: record.name.clone(),
            origin: record.origin.to_string(),
            set: record.policy.is_set(),
            size: record.size,
            version: record.version.get(),
        }
    }
}

impl FoundRow {
    /// Whether nobody holds what was asked for.
    pub(crate) fn of_none(answer: &Answer) -> bool {
        answer.candidates.iter().all(|found| found.holders.is_empty())
    }

    pub(crate) fn of(name: &FileName, answer: &Answer) -> Self {
        let held = answer.candidates.iter().filter(|found| !found.holders.is_empty());
        let hits = held.map(|found| HitRow { version: (&found.record).into(), holders: holders(found) });
        Self {
            complete: answer.complete,
            guests_unheard: answer.guests_unheard,
            hits: hits.collect(),
            name: name.clone(),
        }
    }
}

impl MatchRow {
    pub(crate) fn of(found: &Candidate, held: Option<&FileStatus>) -> Self {
        Self {
            version: (&found.record).into(),
            shared_ms: Some(found.record.published_ms).filter(|ms| *ms != 0),
            holders: holders(found),
            held: held.map(|held| HeldRow {
                freshness: held.condition.to_string(),
                own: held.own,
                version: held.record.version.get(),
            }),
        }
    }
}

fn holders(found: &Candidate) -> Vec<HolderRow> {
    found.holders.iter().map(HolderRow::from).collect()
}

impl From<&Holder> for HolderRow {
    fn from(holder: &Holder) -> Self {
        let Holder { node, addr, partial, .. } = holder;
        Self { addr: addr.to_string(), node: node.to_string(), partial: *partial }
    }
}

//! What was found under a name.

use nekoproto::Holder;
use serde::Serialize;
use utoipa::ToSchema;

use crate::commands::{FoundRow, MatchRow, VersionRow};

/// One version of a file.
#[derive(Serialize, ToSchema)]
#[schema(as = Version)]
pub(crate) struct VersionJson<'a> {
    /// BLAKE3 of the file, in hexadecimal digits.
    content: String,
    name: &'a str,
    /// The id of the peer that publishes it.
    origin: String,
    /// Whether it is a folder, all of which is one version.
    set: bool,
    /// In bytes.
    size: u64,
    version: u64,
}

/// What was found under one name.
#[derive(Serialize, ToSchema)]
#[schema(as = Answer)]
pub(crate) struct FoundJson<'a> {
    /// Whether every indexer in reach answered.
    complete: bool,
    /// The newest version of each origin.
    hits: Vec<HitJson<'a>>,
    name: &'a str,
}

/// The newest version of one origin, and who has it.
#[derive(Serialize, ToSchema)]
#[schema(as = Hit)]
struct HitJson<'a> {
    #[serde(flatten)]
    #[schema(inline)]
    version: VersionJson<'a>,
    holders: Vec<HolderJson>,
}

/// A file that matches a search: the newest version of one origin.
#[derive(Serialize, ToSchema)]
#[schema(as = Match)]
pub(crate) struct MatchJson<'a> {
    #[serde(flatten)]
    #[schema(inline)]
    version: VersionJson<'a>,
    /// When it was published, in Unix time in milliseconds; null if its origin does not say.
    published_ms: Option<u64>,
    /// Who has it.
    holders: Vec<HolderJson>,
    /// What is published or held here of it.
    held: Option<HeldJson>,
}

/// The version that is here.
#[derive(Serialize, ToSchema)]
#[schema(as = Held)]
struct HeldJson {
    /// As in the catalogue.
    condition: String,
    /// Whether this peer publishes it.
    own: bool,
    version: u64,
}

/// A peer that has a version, or a part of it.
#[derive(Serialize, ToSchema)]
#[schema(as = Holder)]
struct HolderJson {
    /// Where it serves.
    addr: String,
    /// Its id.
    node: String,
    /// Whether it has only a part.
    partial: bool,
}

impl<'a> From<&'a VersionRow> for VersionJson<'a> {
    fn from(version: &'a VersionRow) -> Self {
        Self {
            content: version.content.to_string(),
            name: version.name.as_str(),
            origin: version.origin.to_string(),
            set: version.is_set,
            size: version.size,
            version: version.version.get(),
        }
    }
}

impl<'a> From<&'a FoundRow> for FoundJson<'a> {
    fn from(found: &'a FoundRow) -> Self {
        let hits = found.hits.iter().map(|(version, holders)| HitJson {
            version: version.into(),
            holders: holders.iter().map(HolderJson::from).collect(),
        });
        Self { complete: found.complete, hits: hits.collect(), name: found.name.as_str() }
    }
}

impl<'a> From<&'a MatchRow> for MatchJson<'a> {
    fn from(found: &'a MatchRow) -> Self {
        Self {
            version: (&found.record).into(),
            published_ms: Some(found.record.published_ms).filter(|ms| *ms != 0),
            holders: found.holders.iter().map(HolderJson::from).collect(),
            held: found.held.map(|held| HeldJson {
                condition: held.condition.to_string(),
                own: held.own,
                version: held.version.get(),
            }),
        }
    }
}

impl From<&Holder> for HolderJson {
    fn from(holder: &Holder) -> Self {
        let Holder { node, addr, partial, .. } = holder;
        Self { addr: addr.to_string(), node: node.to_string(), partial: *partial }
    }
}

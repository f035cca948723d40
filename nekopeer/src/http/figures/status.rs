//! `/status`: everything about the peer at one glance.

use std::{num::NonZeroU64, sync::Arc, time::Instant};

use axum::{Json, extract::State};
use nekoindexer::daemon::http::exposition::resident_bytes;
use nekoproto::budget::Budget;
use serde::Serialize;
use utoipa::ToSchema;

use super::census;
use crate::{
    api::COMMANDS_MAX,
    api::rest::{Inside, described::Refused},
    indexers::IndexerLink,
    library::census::Census,
    peer::PeerHandle,
};

/// A peer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PeerStatus {
    /// Its id.
    node: String,
    version: &'static str,
    /// The network it belongs to.
    network: String,
    /// Where it serves files; null if it does not.
    listen: Option<String>,
    /// Milliseconds since the start.
    uptime_ms: u64,
    indexers: Vec<IndexerStatus>,
    /// The files, as they were counted some seconds ago; null if counting takes too long now.
    files: Option<FilesStatus>,
    traffic: Traffic,
    /// Files that are being written.
    writing: usize,
    /// Commands that are being carried out for other programs.
    commands: InUse,
    /// Bytes that are kept for other nodes, and what became of those that wanted more.
    memory: Kept,
    /// Memory of the process in bytes.
    memory_bytes: Option<u64>,
}

/// How the peer stands with an indexer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Link)]
struct IndexerStatus {
    addr: String,
    connected: bool,
    /// Why it is not connected.
    why: Option<String>,
}

/// Files by their condition.
#[derive(Debug, Serialize, ToSchema)]
struct FilesStatus {
    /// Shared here.
    own: u64,
    /// Copies of other origins' files.
    copies: u64,
    /// Bytes of all of them.
    bytes: u64,
    /// Copies that count as fresh.
    fresh: u64,
    /// Copies whose origin has not confirmed them in time.
    unverified: u64,
    /// Files of which a newer version is known.
    stale: u64,
    /// Files that changed on disk and are not shared.
    changed: u64,
    /// Files that are sets: folders, all of which is one version.
    sets: u64,
    /// Leases of readers on news of the files that are shared here.
    readers: u64,
    /// Those whose reader has not acknowledged the newest version.
    behind: u64,
}

/// What was moved since the start.
#[derive(Debug, Serialize, ToSchema)]
struct Traffic {
    bytes_up: u64,
    bytes_down: u64,
    downloads: u64,
    /// Copies that were replaced by their newest version.
    refetches: u64,
    /// Messages about newer versions of copies.
    invalidations: u64,
    /// Requests of readers now.
    uploads_active: usize,
    uploads_waiting: usize,
    /// Requests of readers that were refused, as too many were waiting.
    uploads_refused: u64,
    /// Bytes a second that are sent at most; null: no limit.
    limit_up_bytes_per_s: Option<u64>,
    /// Bytes a second that are fetched at most; null: no limit.
    limit_down_bytes_per_s: Option<u64>,
    /// Whether downloads are paused.
    paused: bool,
}

/// What is used of a limit.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct InUse {
    used: usize,
    max: usize,
}

/// Bytes that are kept for other nodes.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct Kept {
    used_bytes: usize,
    max_bytes: usize,
    /// Nodes whose connections were ended to make room.
    evicted: u64,
    /// How often a node was refused more.
    refused: u64,
}

impl From<IndexerLink> for IndexerStatus {
    fn from(IndexerLink { addr, is_connected, why }: IndexerLink) -> Self {
        Self { addr: addr.to_string(), connected: is_connected, why }
    }
}

impl From<Census> for FilesStatus {
    fn from(census: Census) -> Self {
        let Census { own, copies, bytes, fresh, unverified, stale, changed, sets, readers, behind, .. } =
            census;
        Self { own, copies, bytes, fresh, unverified, stale, changed, sets, readers, behind }
    }
}

impl Kept {
    fn of(budget: &Budget) -> Self {
        let (evicted, refused) = (budget.evicted(), budget.refused());
        Self { used_bytes: budget.used(), max_bytes: budget.max(), evicted, refused }
    }
}

impl Traffic {
    fn of(peer: &PeerHandle) -> Self {
        let (counters, slots) = (&peer.library.counters, peer.figures.slots());
        let limits = peer.limits();
        Self {
            bytes_up: counters.bytes_up.get(),
            bytes_down: counters.bytes_down.get(),
            downloads: counters.downloads.get(),
            refetches: counters.refetches.get(),
            invalidations: counters.invalidations.get(),
            uploads_active: slots.active,
            uploads_waiting: slots.waiting,
            uploads_refused: counters.requests_refused.get(),
            limit_up_bytes_per_s: limits.up.map(NonZeroU64::get),
            limit_down_bytes_per_s: limits.down.map(NonZeroU64::get),
            paused: peer.is_paused(),
        }
    }
}

/// Everything about the peer at one glance.
#[utoipa::path(
    get,
    path = "/status",
    responses(
        (status = 200, body = PeerStatus, description = "The peer now"),
        Refused,
    )
)]
pub(super) async fn state(State(inside): State<Arc<Inside>>) -> Json<PeerStatus> {
    let files = census(&inside).await.map(FilesStatus::from);
    let peer = &inside.host.peer;
    let figures = &peer.figures;
    let uptime = Instant::now().saturating_duration_since(figures.began);
    let used = COMMANDS_MAX - inside.host.commands.available_permits();
    Json(PeerStatus {
        node: peer.node().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        network: peer.indexers.home.network.to_string(),
        listen: peer.local_addr().map(|addr| addr.to_string()),
        uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
        indexers: peer.indexers.links().into_iter().map(IndexerStatus::from).collect(),
        files,
        traffic: Traffic::of(peer),
        writing: peer.library.writing().len(),
        commands: InUse { used, max: COMMANDS_MAX },
        memory: Kept::of(&figures.budget),
        memory_bytes: resident_bytes(),
    })
}

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
    indexers: Vec<IndexerLink>,
    /// The files, as they were counted some seconds ago; null if counting takes too long now.
    files: Option<Census>,
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
    let files = census(&inside).await;
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
        indexers: peer.indexers.links(),
        files,
        traffic: Traffic::of(peer),
        writing: peer.library.writing().len(),
        commands: InUse { used, max: COMMANDS_MAX },
        memory: Kept::of(&figures.budget),
        memory_bytes: resident_bytes(),
    })
}

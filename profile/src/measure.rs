//! One scenario from start to end: floor, cluster, run, floor again, and all of it stopped.

use std::{sync::Arc, sync::atomic::Ordering};

use crate::{
    cluster::{Cluster, layout::Layout, node::Place},
    commands::{
        interrupt::until_stopped,
        outcome::{Begin, Fault},
        progress::Progress,
    },
    floor::{self, Floor},
    plan::scenario::Scenario,
    report::figures::Figures,
    run::{self, Watch, samples::Samples},
};
use nekoproto::transport::Security;

/// What came of one scenario.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was run.
    pub scenario: Scenario,
    /// On which threads.
    pub layout: Layout,
    /// TLS, or plain TCP.
    pub security: Security,
    /// Every request.
    pub samples: Samples,
    /// Response times of the answers.
    pub figures: Figures,
    /// Response times before the measurement.
    pub warm_up: Option<Figures>,
    /// A raw TCP round trip on the same threads, measured before and after.
    pub floor: Figures,
    /// An echo call through our own transport, likewise.
    pub floor_call: Figures,
    /// Resident memory of the indexers (and, in one process, of the clients) in bytes.
    pub rss_bytes: u64,
}

/// Runs `scenario`.
///
/// # Errors
/// It cannot begin, or nothing was measured. Nothing is left running.
pub async fn measure(scenario: &Scenario, place: &Place, watch: &Arc<Watch>) -> Result<Measured, Fault> {
    watch.done.store(0, Ordering::Relaxed);
    let before = until_stopped(watch, Floor::measure(place)).await.or_cannot_begin()?;
    let cluster = until_stopped(watch, Cluster::start(scenario, place)).await.or_cannot_begin()?;
    let progress = Progress::start(&scenario.name(), scenario.requests_of_all(), Arc::clone(watch));
    let ran = run::run(scenario, &cluster, watch).await;
    drop(progress);
    let rss_bytes = cluster.rss_bytes();
    cluster.stop().await;
    let samples = ran?;
    let floor = before.and(Floor::measure(place).await?);
    Ok(Measured {
        scenario: scenario.clone(),
        layout: place.layout,
        security: place.security,
        figures: samples.figures()?,
        warm_up: Figures::of(samples.warm_up.iter().copied()).ok(),
        floor: floor::figures(&floor.raw)?,
        floor_call: floor::figures(&floor.call)?,
        samples,
        rss_bytes,
    })
}

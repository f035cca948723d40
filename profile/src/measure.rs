//! One scenario from start to end: floor, cluster, run, floor again, and all of it stopped.

use std::sync::Arc;

use nekoindexer::Routing;
use nekoproto::transport::Security;

use crate::{
    cluster::{Cluster, layout::Layout, node::Place},
    floor::Floor,
    outcome::{Begin, Fault},
    plan::scenario::Scenario,
    report::figures::Figures,
    run::{self, Watch, progress::Progress, samples::Samples},
};

/// What came of one scenario.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was run.
    pub scenario: Scenario,
    /// On which threads.
    pub layout: Layout,
    /// TLS, or plain TCP.
    pub security: Security,
    /// Whom indexers sent queries to.
    pub routing: Routing,
    /// Every request.
    pub samples: Samples,
    /// Response times of the answers.
    pub figures: Figures,
    /// Response times of the answers before the measurement.
    pub warm_up: Figures,
    /// The floor before the run, and the one after it.
    pub floors: [Floor; 2],
    /// Resident memory in bytes: of the indexers' processes, or of this one with all that is in it.
    pub rss_bytes: u64,
}

impl Measured {
    /// A raw TCP round trip on the same threads: of the two measurements the one that the machine
    /// disturbed less.
    #[must_use]
    pub fn floor(&self) -> &Figures {
        let [before, after] = &self.floors;
        if after.raw.p50 < before.raw.p50 { &after.raw } else { &before.raw }
    }

    /// An echo call through our own transport, likewise.
    #[must_use]
    pub fn floor_call(&self) -> &Figures {
        let [before, after] = &self.floors;
        if after.call.p50 < before.call.p50 { &after.call } else { &before.call }
    }
}

/// Runs `scenario`.
///
/// # Errors
/// It cannot begin, or it broke. Nothing is left running.
pub async fn measure(scenario: &Scenario, place: &Place, watch: &Arc<Watch>) -> Result<Measured, Fault> {
    let before = watch.unless_stopped(Floor::measure(place)).await.or_cannot_begin()?;
    let cluster = watch.unless_stopped(Cluster::start(scenario, place)).await.or_cannot_begin()?;
    let ran = ask(scenario, &cluster, watch).await;
    let rss_bytes = cluster.rss_bytes();
    cluster.stop().await;
    let samples = ran?;
    // What was measured is not given up for a floor.
    let after = Floor::measure(place).await.unwrap_or_else(|_| before.clone());
    Ok(Measured {
        scenario: scenario.clone(),
        layout: place.layout,
        security: place.security,
        routing: place.routing,
        figures: samples.figures(),
        warm_up: samples.warm_up_figures(),
        floors: [before, after],
        samples,
        rss_bytes,
    })
}

async fn ask(scenario: &Scenario, cluster: &Cluster, watch: &Arc<Watch>) -> Result<Samples, Fault> {
    let clients = watch.unless_stopped(run::connect(scenario, cluster, watch)).await.or_cannot_begin()?;
    let _progress = Progress::start(&scenario.name(), scenario.requests_of_all(), Arc::clone(watch));
    Ok(run::run(scenario, clients, watch).await?)
}

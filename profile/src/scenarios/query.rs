//! One scenario from start to end: floor, cluster, run, floor again, and all of it stopped.

mod reference;
pub(crate) mod show;

use nekoindexer::Routing;
use nekoproto::transport::Security;

use crate::cluster::{Cluster, layout::Layout};
use crate::run::{self, samples::Samples};
use crate::scenarios::prelude::*;

pub(crate) use crate::plan::query::Query;
pub(crate) use show::COLUMNS;

impl Scenario for Query {
    type How = Setup;
    type Target = Detailed;

    fn check(&self, how: &Setup) -> anyhow::Result<()> {
        self.graph()?;
        ensure!(self.idle_s == 0 || how.processes, "--idle is measured of processes: give --processes");
        Ok(())
    }

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        Ok(measure(self, on).await?.report())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) scenario: Query,
    pub(crate) layout: Layout,
    pub(crate) security: Security,
    pub(crate) routing: Routing,
    pub(crate) samples: Samples,
    /// Response times of the answers.
    pub(crate) figures: Figures,
    /// Response times of the answers before the measurement.
    pub(crate) warm_up: Figures,
    /// The floor before the run, and the one after it.
    pub(crate) floors: [Floor; 2],
    /// Resident memory in bytes: of the indexers' processes, or of this one with all that is in it.
    pub(crate) rss_bytes: u64,
    /// What the indexers took before anybody asked, if that was measured.
    pub(crate) idle: Option<Row>,
}

impl Measured {
    /// A raw TCP round trip on the same threads: of the two measurements the one that the machine
    /// disturbed less.
    pub(crate) fn floor(&self) -> &Figures {
        self.lower(|floor| &floor.raw)
    }

    /// An echo call through our own transport, likewise.
    pub(crate) fn floor_call(&self) -> &Figures {
        self.lower(|floor| &floor.call)
    }

    fn lower(&self, of: fn(&Floor) -> &Figures) -> &Figures {
        let [before, after] = self.floors.each_ref().map(of);
        if after.p50 < before.p50 { after } else { before }
    }
}

/// Runs `scenario`; if that fails, nothing is left running.
pub(crate) async fn measure(scenario: &Query, deployment: &Deployment) -> Result<Measured, Fault> {
    let watch = &deployment.watch;
    let before = watch.unless_stopped(Floor::measure(deployment)).await.or_cannot_begin()?;
    let cluster = watch.unless_stopped(Cluster::start(scenario, deployment)).await.or_cannot_begin()?;
    let idle = cluster.idle(scenario.idle_s).await;
    let ran = ask(scenario, &cluster, watch).await;
    let rss_bytes = cluster.rss_bytes();
    cluster.stop().await;
    let samples = ran?;
    // What was measured is not given up for a floor.
    let after = Floor::measure(deployment).await.unwrap_or_else(|_| before.clone());
    Ok(Measured {
        scenario: scenario.clone(),
        layout: deployment.layout,
        security: deployment.security,
        routing: deployment.routing,
        figures: samples.figures(),
        warm_up: samples.warm_up_figures(),
        floors: [before, after],
        samples,
        rss_bytes,
        idle,
    })
}

async fn ask(scenario: &Query, cluster: &Cluster, watch: &Arc<Watch>) -> Result<Samples, Fault> {
    let clients = watch.unless_stopped(run::connect(scenario, cluster, watch)).await.or_cannot_begin()?;
    let _progress = Progress::begin(&scenario.name(), scenario.requests_of_all(), watch);
    Ok(run::run(scenario, clients, watch).await?)
}

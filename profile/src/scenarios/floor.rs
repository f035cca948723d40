//! The floors of every layout beside each other: what this machine makes of a message and its answer.

use crate::cluster::layout::Layout;
use crate::floor::{blocking, call, calls_per_s, raw};
use crate::scenarios::prelude::*;

/// Echo calls in flight for a throughput.
const DEPTH: usize = 64;
const RAW: &str = "raw TCP";
const COLUMNS: &str = "layout scenario p50_us p90_us p99_us ratio_to_floor per_s";

/// It has no options.
#[derive(Args)]
pub(crate) struct Layouts {}

impl Scenario for Layouts {
    type How = ();
    type Target = Output;

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let watch = &on.watch;
        let mut rows = Vec::new();
        for (layout, cores) in [("no runtime, one core", [0, 0]), ("no runtime, two cores", [0, 1])] {
            let figures = blocking(cores).or_cannot_begin()?;
            rows.push(row(RAW, layout, &figures, &figures));
        }
        let layouts = Layout::value_variants().iter().copied().chain([Layout::Processes]);
        for layout in layouts.take_while(|_| !watch.is_stopped()) {
            let setup = Setup { layout, ..Setup::plain() };
            let measured = setup.on_threads(watch, async |on| of_layout(&on).await.or_cannot_begin());
            rows.extend(measured?);
        }
        let title = "A message of 64 bytes and its answer";
        Ok(Report {
            kind: Some("floor"),
            head: format!(
                "{title}, {}; floor: raw TCP in the same layout; a second: with {DEPTH} in flight.",
                machine::in_words()
            ),
            sections: vec![Section::new("", COLUMNS, rows)],
            interrupted: watch.is_stopped(),
            ..Report::default()
        })
    }
}

async fn of_layout(deployment: &Deployment) -> Result<Vec<Row>> {
    let layout = deployment.layout.name();
    let floor = raw(deployment).await?;
    let mut rows = vec![row(RAW, &layout, &floor, &floor)];
    let calls = [("echo call, insecure", Security::Insecure), ("echo call, TLS", Security::Tls)];
    for (what, security) in calls.into_iter().take_while(|_| !deployment.watch.is_stopped()) {
        let figures = call(deployment, security).await?;
        let per_s = calls_per_s(deployment, security, DEPTH).await?;
        rows.push(row(what, &layout, &figures, &floor).with("per_s", per_s));
    }
    Ok(rows)
}

fn row(what: &str, layout: &str, figures: &Figures, floor: &Figures) -> Row {
    let row = Row::named(what).with("layout", layout).with("per_s", None::<f64>).times(figures);
    row.with("floor_us", floor.p50).with("ratio_to_floor", figures.p50 / floor.p50)
}

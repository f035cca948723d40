//! The floors of every layout beside each other: what this machine makes of a message and its answer.

use std::sync::Arc;

use clap::ValueEnum;
use nekoindexer::{Routing, threads::THREADS_DEFAULT};
use nekoproto::transport::Security;
use serde_json::{Map, Value, json};

use crate::{
    cluster::{
        affinity::on_own_thread,
        layout::{Layout, Runtimes},
        node::Place,
    },
    floor,
    report::{
        figures::{Figures, rounded},
        machine,
    },
    run::{Watch, interrupt::listen},
};

/// Echo calls in flight for a throughput.
const DEPTH: usize = 64;
const RAW: &str = "raw TCP";

/// One floor.
#[derive(Clone, Debug)]
pub struct Row {
    /// What goes there and back.
    pub what: &'static str,
    /// On which threads.
    pub layout: &'static str,
    /// How long one takes.
    pub figures: Figures,
    /// How many a second with 64 in flight.
    pub per_s: Option<f64>,
}

/// Measures all floors; fewer if stopped.
///
/// # Errors
/// The sockets failed.
pub fn measure(watch: &Arc<Watch>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (layout, cores) in [("no runtime, one core", [0, 0]), ("no runtime, two cores", [0, 1])] {
        let figures = floor::blocking(cores)?;
        rows.push(Row { what: RAW, layout, figures, per_s: None });
    }
    for layout in Layout::value_variants().iter().copied().chain([Layout::Processes]) {
        rows.extend(on_own_thread(|| on_runtimes(layout, watch))??);
    }
    Ok(rows)
}

fn on_runtimes(layout: Layout, watch: &Arc<Watch>) -> anyhow::Result<Vec<Row>> {
    Runtimes::new(layout)?.run(|runtimes| async {
        listen(Arc::clone(watch))?;
        let place = Place {
            layout,
            security: Security::Insecure,
            routing: Routing::default(),
            port: 0,
            threads: THREADS_DEFAULT,
            runtimes,
        };
        of_layout(&place, watch).await
    })
}

async fn of_layout(place: &Place, watch: &Watch) -> anyhow::Result<Vec<Row>> {
    let layout = place.layout.name();
    let mut rows = Vec::new();
    if watch.is_stopped() {
        return Ok(rows);
    }
    rows.push(Row { what: RAW, layout, figures: floor::raw(place).await?, per_s: None });
    for (what, security) in [("echo call, insecure", Security::Insecure), ("echo call, TLS", Security::Tls)] {
        if watch.is_stopped() {
            break;
        }
        let figures = floor::call(place, security).await?;
        let per_s = Some(floor::calls_per_s(place, security, DEPTH).await?);
        rows.push(Row { what, layout, figures, per_s });
    }
    Ok(rows)
}

/// For people, in Markdown.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let head = format!(
        "A message of 64 bytes and its answer, {}; ratio: p50 to raw TCP in the same layout.\n\n\
         | layout | what | p50 us | p90 | p99 | ratio | a second, {DEPTH} in flight |\n|---|---|--:|--:|--:|--:|--:|\n",
        machine::in_words()
    );
    let lines = rows.iter().map(|row| {
        let Figures { p50, p90, p99, .. } = row.figures;
        let ratio = ratio(rows, row).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let per_s = row.per_s.map_or("-".to_owned(), |per_s| format!("{per_s:.0}"));
        format!("| {} | {} | {p50:.1} | {p90:.1} | {p99:.1} | {ratio} | {per_s} |\n", row.layout, row.what)
    });
    head + &lines.collect::<String>()
}

/// For machines.
#[must_use]
pub fn json(rows: &[Row], interrupted: bool) -> Value {
    let object = |row: &Row| {
        let mut object = Map::new();
        object.insert("scenario".to_owned(), json!(row.what));
        object.insert("layout".to_owned(), json!(row.layout));
        object.insert("floor_us".to_owned(), json!(floor_of(rows, row).map(rounded)));
        row.figures.write_into(&mut object);
        object.insert("ratio_to_floor".to_owned(), json!(ratio(rows, row).map(rounded)));
        object.insert("per_s".to_owned(), json!(row.per_s.map(rounded)));
        Value::Object(object)
    };
    let rows: Vec<Value> = rows.iter().map(object).collect();
    json!({ "kind": "floor", "commit": machine::COMMIT, "machine": machine::describe(), "interrupted": interrupted, "rows": rows })
}

fn ratio(rows: &[Row], of: &Row) -> Option<f64> {
    Some(of.figures.p50 / floor_of(rows, of)?)
}

/// The raw TCP round trip in the same layout.
fn floor_of(rows: &[Row], of: &Row) -> Option<f64> {
    Some(rows.iter().find(|row| row.layout == of.layout && row.what == RAW)?.figures.p50)
}

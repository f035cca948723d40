//! What each command does: prepares, measures, writes, prints.

pub mod args;
mod transfer;

use std::{io::Write, num::NonZeroUsize, path::PathBuf, sync::Arc};

use anyhow::Context;
use nekoindexer::Routing;
use serde_json::Value;

use self::args::{Args, Command, Setup};
use crate::{
    cluster::{
        layout::{Layout, Runtimes},
        node::Place,
        serve,
    },
    compare, connections,
    floor::layouts,
    goals,
    index::{self, Options},
    instructions, matrix,
    measure::{Measured, measure},
    outcome::{Begin, Fault, Outcome},
    plan::scenario::Scenario,
    plot,
    report::outputs::{OutFile, OutFolder},
    run::{Watch, interrupt},
    transfer::node,
};

/// Does what the arguments say.
///
/// # Errors
/// Why it could not begin, or what went wrong then.
pub fn run(args: Args) -> Result<Outcome, Fault> {
    nekoproto::transport::raise_file_limit();
    let measures = !matches!(
        args.command,
        Command::Compare(_) | Command::Instructions(_) | Command::Serve(_) | Command::TransferNode(_)
    );
    if cfg!(debug_assertions) && measures {
        note("note: this is a debug build, its figures say little (cargo run --profile dist)");
    }
    match args.command {
        Command::Query(query) => run_query(&query),
        Command::Floor(floor) => run_floor(&floor),
        Command::Index(index) => run_index(&index),
        Command::Goals(goals) => run_goals(&goals),
        Command::Connections(connections) => run_connections(&connections),
        Command::Matrix(matrix) => run_matrix(&matrix),
        Command::Transfer(args) => transfer::run(&args),
        Command::Compare(compare) => run_compare(&compare),
        Command::Instructions(instructions) => run_instructions(&instructions),
        Command::Serve(serve) => {
            let security = args::security(serve.insecure);
            serve::serve(serve.kind, serve.listen, serve.neighbor, security, serve.routing, serve.threads)
                .or_cannot_begin()?;
            Ok(Outcome::Done)
        }
        Command::TransferNode(args) => {
            node::run(&args.options())?;
            Ok(Outcome::Done)
        }
    }
}

fn run_query(query: &args::Query) -> Result<Outcome, Fault> {
    let scenario = query.scenario();
    scenario.graph().or_cannot_begin()?;
    let [json, csv] = [&query.json, &query.csv].map(prepare_file);
    let (json, csv, folder) = (json?, csv?, prepare_folder(query.plot.as_ref())?);
    let measured = on_threads(&query.setup, async |place, watch| measure(&scenario, &place, &watch).await)?;
    let mut written = write_json(json, &measured.json())?;
    if let Some(csv) = csv {
        written.push(csv.write(|out| Ok(measured.samples.write_csv(out)?))?);
    }
    if let Some(folder) = folder {
        written.extend(plot::draw_measured(folder.path(), &measured)?);
    }
    print(&measured.table(), &written)?;
    Ok(outcome(measured.is_all_well()))
}

fn run_matrix(args: &args::Matrix) -> Result<Outcome, Fault> {
    let base = args.load.scenario();
    for (indexers, clients, ttl_hops) in matrix::ROWS {
        Scenario { indexers, clients, ttl_hops, ..base.clone() }.graph().or_cannot_begin()?;
    }
    let (json, folder) = (prepare_file(&args.json)?, prepare_folder(args.plot.as_ref())?);
    let matrix = on_threads(&args.setup, async |place, watch| matrix::run(&base, &place, &watch).await)?;
    let mut written = write_json(json, &matrix::json(&matrix))?;
    if let Some(folder) = folder {
        written.extend(matrix::draw(folder.path(), &matrix.rows)?);
    }
    print(&matrix::table(&matrix), &written)?;
    let is_all_well = !matrix.interrupted && matrix.rows.iter().all(Measured::is_all_well);
    matrix.fault.map_or(Ok(outcome(is_all_well)), Err)
}

fn run_floor(args: &args::Floor) -> Result<Outcome, Fault> {
    let json = prepare_file(&args.json)?;
    let watch = Arc::new(Watch::default());
    let rows = layouts::measure(&watch).or_cannot_begin()?;
    let written = write_json(json, &layouts::json(&rows, watch.is_stopped()))?;
    print(&layouts::table(&rows), &written)?;
    Ok(outcome(!watch.is_stopped()))
}

fn run_index(args: &args::Index) -> Result<Outcome, Fault> {
    let options = Options {
        names: args.names.iter().map(|names| *names as usize).collect(),
        depths: args.depths.iter().copied().map(usize::from).collect(),
        batches: args.batches.iter().copied().map(usize::from).collect(),
        leaves: args.leave.iter().map(|names| *names as usize).collect(),
        lookups: args.lookups as usize,
        seed: args.seed,
    };
    let (json, setup) = (prepare_file(&args.json)?, process(args.insecure, args.threads));
    let report = on_threads(&setup, async |place, watch| index::run(&options, &place, &watch).await)?;
    let written = write_json(json, &report.json())?;
    print(&report.table(), &written)?;
    Ok(outcome(!report.interrupted))
}

fn run_connections(args: &args::Connections) -> Result<Outcome, Fault> {
    let options = connections::Options {
        connections: usize::from(args.connections.max(args.active)),
        active: usize::from(args.active),
        lookups: args.lookups as usize,
    };
    let (json, setup) = (prepare_file(&args.json)?, process(args.insecure, args.threads));
    let report = on_threads(&setup, async |place, watch| connections::run(&options, &place, &watch).await)?;
    let written = write_json(json, &report.json())?;
    print(&report.table(), &written)?;
    Ok(outcome(!report.interrupted))
}

fn run_goals(args: &args::Goals) -> Result<Outcome, Fault> {
    let options = goals::Options {
        requests: args.requests as usize,
        names: args.names.iter().map(|names| *names as usize).collect(),
        connections: usize::from(args.connections),
        leave: args.leave as usize,
    };
    let json = prepare_file(&args.json)?;
    let watch = Arc::new(Watch::default());
    let rows = goals::run(&options, &watch)?;
    let written = write_json(json, &goals::json(&rows, watch.is_stopped()))?;
    print(&goals::table(&rows), &written)?;
    // A goal that is missed is a result; a wrong answer is not.
    Ok(outcome(!watch.is_stopped() && rows.iter().all(|row| row.all_right)))
}

/// One indexer in a process of its own.
fn process(insecure: bool, threads: NonZeroUsize) -> Setup {
    let (layout, routing) = (Layout::Processes, Routing::default());
    Setup { layout, processes: true, insecure, routing, port: 0, threads }
}

fn run_compare(args: &args::Compare) -> Result<Outcome, Fault> {
    let read = |path: &PathBuf| -> anyhow::Result<Value> {
        let cannot = || format!("cannot read the result {}", path.display());
        let text = std::fs::read_to_string(path).with_context(cannot)?;
        serde_json::from_str(&text).with_context(cannot)
    };
    let (before, after) = (read(&args.before).or_cannot_begin()?, read(&args.after).or_cannot_begin()?);
    let rule = compare::Rule { tolerance: args.tolerance, per_floor: args.per_floor };
    let comparison = compare::compare(&before, &after, rule).or_cannot_begin()?;
    print(comparison.table.trim_end(), &[])?;
    print_off(&comparison.regressions, "worse by more than the tolerance")
}

fn run_instructions(args: &args::Instructions) -> Result<Outcome, Fault> {
    if let (Some(hot), Some(times)) = (args.count, args.times) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().or_cannot_begin()?;
        let _within = runtime.enter(); // the table of message ids needs a timer
        instructions::run(hot, times)?;
        return Ok(Outcome::Done);
    }
    let recorded =
        if args.record { None } else { Some(instructions::read(&args.recorded).or_cannot_begin()?) };
    let file = if args.record { prepare_file(&Some(args.recorded.clone()))? } else { None };
    let counted =
        instructions::count_all(|hot| note(&format!("counting {}", hot.name()))).or_cannot_begin()?;
    print("", &write_json(file, &serde_json::to_value(&counted).map_err(anyhow::Error::from)?)?)?;
    let Some(recorded) = recorded else { return Ok(Outcome::Done) };
    let judgement = instructions::judge(&recorded, &counted, args.tolerance).or_cannot_begin()?;
    print(judgement.table.trim_end(), &[])?;
    print_off(&judgement.off, "off by more than the tolerance")
}

/// Runs `work` where the clients run, with Ctrl-C ending it early.
fn on_threads<T>(
    setup: &Setup,
    work: impl AsyncFnOnce(Place, Arc<Watch>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let runtimes = Runtimes::new(setup.layout()).or_cannot_begin()?;
    runtimes.run(|runtimes| async {
        let watch = Arc::new(Watch::default());
        interrupt::listen(Arc::clone(&watch)).or_cannot_begin()?;
        work(setup.place(runtimes), watch).await
    })
}

const fn outcome(is_all_well: bool) -> Outcome {
    if is_all_well { Outcome::Done } else { Outcome::NotAllWell }
}

fn prepare_file(path: &Option<PathBuf>) -> Result<Option<OutFile>, Fault> {
    path.as_deref().map(OutFile::prepare).transpose().or_cannot_begin()
}

fn prepare_folder(path: Option<&PathBuf>) -> Result<Option<OutFolder>, Fault> {
    path.map(|path| OutFolder::prepare(path)).transpose().or_cannot_begin()
}

/// Writes `value` to `file`, if there is one; returns what was written.
fn write_json(file: Option<OutFile>, value: &Value) -> anyhow::Result<Vec<PathBuf>> {
    let write =
        |file: OutFile| file.write(|out| Ok(writeln!(out, "{}", serde_json::to_string_pretty(value)?)?));
    Ok(file.map(write).transpose()?.into_iter().collect())
}

/// Prints `text` and what was written, which is on disk by now.
fn print(text: &str, written: &[PathBuf]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = written.iter().map(|path| format!("wrote {}", path.display()));
    let lines = [text.to_owned()].into_iter().filter(|text| !text.is_empty()).chain(written);
    for line in lines {
        writeln!(stdout, "{line}").context("cannot write to stdout")?;
    }
    Ok(())
}

fn print_off(off: &[String], what: &str) -> Result<Outcome, Fault> {
    if off.is_empty() {
        print("all within the tolerance", &[])?;
        return Ok(Outcome::Done);
    }
    print(&format!("\n{} {what}:\n  {}", off.len(), off.join("\n  ")), &[])?;
    Ok(Outcome::Regressed)
}

/// Says on stderr what is going on.
fn note(text: &str) {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

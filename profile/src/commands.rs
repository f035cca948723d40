//! What each command does: prepares, measures, writes, prints.

pub(crate) mod args;

use std::{io::Write, path::Path, sync::Arc};

use anyhow::Context;
use nekoindexer::daemon::threads::THREADS_DEFAULT;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::args::Args;
use self::args::{Apart, Command, Drawn, Output, Plain};
use crate::measure::{Measured, measure};
use crate::outcome::{Begin, Fault, Outcome};
use crate::report::{Proof, Report, option_name};
use crate::run::setup::{Connecting, Setup};
use crate::run::watch::note;
use crate::{
    batch, compare, connections, consistency, goals, hostile, index, instructions, load, matrix, node,
    pipeline, plot, relay, soak, transfer,
};
use crate::{cluster::deployment::Deployment, floor::layouts, plan::scenario::Scenario};
use crate::{report::outputs::Outputs, run::Watch, transfer::folder::Folder};

/// Does what the arguments say.
///
/// # Errors
/// Why it could not begin, or what went wrong then.
pub fn run(args: Args) -> Result<Outcome, Fault> {
    nekoproto::transport::raise_file_limit();
    let measures = !matches!(
        args.command,
        Command::Compare(_)
            | Command::Instructions(_)
            | Command::Node(_)
            | Command::Daemon { .. }
            | Command::Consistency(_)
    );
    if cfg!(debug_assertions) && measures {
        note("note: this is a debug build, its figures say little (cargo run --profile dist)");
    }
    match args.command {
        Command::Query(query) => run_query(&query),
        Command::Floor(output) => run_floor(&output),
        Command::Index(args) => run_alone(&args, index::run),
        Command::Goals(goals) => run_goals(&goals),
        Command::Connections(args) => run_alone(&args, connections::run),
        Command::Matrix(matrix) => run_matrix(&matrix),
        Command::Transfer(args) => run_transfer(&args),
        Command::Hostile(args) => run_proof(&args, "hostile", hostile::run),
        Command::Soak(args) => run_proof(&args, "soak", soak::run),
        Command::Batch(args) => run_proof(&args, "batch", batch::run),
        Command::Pipeline(args) => run_proof(&args, "pipeline", pipeline::run),
        Command::Relay(args) => run_proof(&args, "relay", relay::run),
        Command::Load(args) => run_proof(&args, "load", load::run),
        Command::Consistency(args) => run_consistency(&args),
        Command::Compare(compare) => run_compare(&compare),
        Command::Instructions(instructions) => run_instructions(&instructions),
        Command::Node(process) => {
            let options = serde_json::from_str(&process.options).or_cannot_begin()?;
            node::serve::run(process.listen, &options)?;
            Ok(Outcome::Done)
        }
        Command::Daemon { args } => load::run_daemon(&args).or_cannot_begin().map(|()| Outcome::Done),
    }
}

fn run_query(args: &args::Query) -> Result<Outcome, Fault> {
    let scenario = args.scenario();
    scenario.graph().or_cannot_begin()?;
    let outputs = args.output.prepare()?;
    let measured =
        args.setup.on_threads(&Arc::default(), async |deployment| measure(&scenario, &deployment).await)?;
    let csv = |out: &mut dyn Write| measured.samples.write_csv(out);
    finish(&measured.report(), outputs.write_csv(csv)?.draw(|| plot::queries::pictures(&measured))?)?;
    Ok(outcome(measured.is_all_well()))
}

fn run_matrix(args: &args::Matrix) -> Result<Outcome, Fault> {
    let base = Scenario { load: args.load.clone(), ..Scenario::default() };
    for (indexers, clients, ttl_hops) in matrix::ROWS {
        Scenario { indexers, clients, ttl_hops, ..base.clone() }.graph().or_cannot_begin()?;
    }
    let outputs = args.output.prepare(None)?;
    let matrix =
        args.setup.on_threads(&Arc::default(), async |deployment| matrix::run(&base, &deployment).await)?;
    finish(&matrix.report(), outputs.draw(|| matrix::pictures(&matrix.rows))?)?;
    let is_all_well = !matrix.interrupted && matrix.rows.iter().all(Measured::is_all_well);
    matrix.fault.map_or(Ok(outcome(is_all_well)), Err)
}

fn run_floor(output: &Output) -> Result<Outcome, Fault> {
    let outputs = output.prepare()?;
    measured(&layouts::measure(&Arc::default())?, outputs)
}

/// Measures one indexer in a process of its own.
fn run_alone<O: clap::Args + Sync>(
    args: &Apart<O, Output>,
    work: impl AsyncFnOnce(&O, &Deployment) -> Result<Report, Fault> + Send,
) -> Result<Outcome, Fault> {
    let outputs = args.output.prepare()?;
    let done = async |on: Deployment| work(&args.options, &on).await;
    measured(&Setup::apart(args.connecting.clone()).on_threads(&Arc::default(), done)?, outputs)
}

fn run_goals(args: &Plain<goals::search::Options, Output>) -> Result<Outcome, Fault> {
    let (outputs, watch) = (args.output.prepare()?, Arc::<Watch>::default());
    let goals = goals::search::run(&args.options, &watch)?;
    finish(&goals::report(&goals, "", watch.is_stopped()), outputs)?;
    // A goal that is missed is a result; a wrong answer is not.
    Ok(outcome(!watch.is_stopped() && goals.iter().all(|goal| goal.all_right)))
}

fn run_transfer(args: &args::Transfer) -> Result<Outcome, Fault> {
    let scenarios = args.scenarios();
    scenarios.iter().try_for_each(transfer::scenario::Scenario::check).or_cannot_begin()?;
    let folder = Folder::prepare(args.dir.as_deref()).or_cannot_begin()?;
    let most = scenarios.iter().map(transfer::scenario::Scenario::disk_bytes).max();
    let outputs = args.output.prepare()?;
    folder.has_room(most.unwrap_or(0)).or_cannot_begin()?;
    let setup = Setup::apart(Connecting { insecure: args.insecure, threads: THREADS_DEFAULT });
    let watch = Arc::<Watch>::default();
    if args.goals {
        let options = args.goals();
        let (goals, all_well) = setup.on_threads(&watch, async |deployment| {
            Ok(goals::transfer::run(&options, &folder, &deployment).await)
        })?;
        let place = format!("{}.\n", folder.in_words());
        finish(&goals::report(&goals, &place, watch.is_stopped()), outputs)?;
        // A goal that is missed is a result; a wrong file, or one that did not arrive, is not.
        return Ok(outcome(all_well));
    }
    let transfers =
        setup.on_threads(&watch, async |deployment| transfer::run(&scenarios, &folder, &deployment).await)?;
    let outputs = outputs.write_csv(|out| transfers.write_csv(out))?;
    finish(&transfers.report(), outputs.draw(|| transfers.pictures())?)?;
    Ok(outcome(transfers.is_all_well()))
}

/// Does something to real processes, and draws a picture of it, called `name`.
fn run_proof<O: clap::Args + Sync>(
    args: &Apart<O, Drawn>,
    name: &str,
    work: impl AsyncFnOnce(&O, &Deployment) -> Result<Proof, Fault> + Send,
) -> Result<Outcome, Fault> {
    let outputs = args.output.prepare(None)?;
    let done = async |on: Deployment| work(&args.options, &on).await;
    let proof = Setup::apart(args.connecting.clone()).on_threads(&Arc::default(), done)?;
    let Proof { report, picture, is_all_well } = proof;
    finish(&report, outputs.draw(|| vec![(name.to_owned(), picture)])?)?;
    Ok(outcome(is_all_well && !report.interrupted))
}

fn run_consistency(args: &Plain<consistency::Options, Drawn>) -> Result<Outcome, Fault> {
    let outputs = args.output.prepare(None)?;
    let tables = consistency::run(&args.options)?;
    // A promise that is broken is a result.
    let outputs = outputs.draw(|| consistency::pictures(&tables))?;
    measured(&consistency::report(&tables, &args.options), outputs)
}

fn run_compare(args: &args::Compare) -> Result<Outcome, Fault> {
    let read = |path: &Path| read::<Value>(path, &format!("cannot read the result {}", path.display()));
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let comparison = compare::compare(&before, &after, args.rule).or_cannot_begin()?;
    print(&comparison.table)?;
    judged(&comparison.regressions, "worse by more than the tolerance")
}

fn run_instructions(args: &args::Instructions) -> Result<Outcome, Fault> {
    if let (Some(hot), Some(times)) = (args.count, args.times) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().or_cannot_begin()?;
        let _within = runtime.enter(); // the table of message ids needs a timer
        instructions::run(hot, times)?;
        return Ok(Outcome::Done);
    }
    let count =
        || instructions::count_all(|hot| note(&format!("counting {}", option_name(&hot)))).or_cannot_begin();
    if args.record {
        let outputs = Outputs::prepare(Some(&args.recorded), None, None).or_cannot_begin()?;
        let counted = serde_json::to_value(count()?).or_cannot_begin()?;
        print(&outputs.write_json(&counted)?.written())?;
        return Ok(Outcome::Done);
    }
    let recorded = args.recorded.display();
    let cannot =
        format!("cannot read the recorded numbers in {recorded} (run it from the top of the repository)");
    let recorded = read(&args.recorded, &cannot)?;
    let (table, off) = instructions::judge(&recorded, &count()?, args.tolerance).or_cannot_begin()?;
    print(&table)?;
    judged(&off, "off by more than the tolerance")
}

fn read<T: DeserializeOwned>(path: &Path, cannot: &str) -> Result<T, Fault> {
    let text = std::fs::read_to_string(path).with_context(|| cannot.to_owned()).or_cannot_begin()?;
    serde_json::from_str(&text).with_context(|| cannot.to_owned()).or_cannot_begin()
}

/// Writes and prints what was measured, all of which is right unless it was ended early.
fn measured(report: &Report, outputs: Outputs) -> Result<Outcome, Fault> {
    finish(report, outputs)?;
    Ok(outcome(!report.interrupted))
}

/// Writes the results, and prints them together with what was written, which is on disk by then.
fn finish(report: &Report, outputs: Outputs) -> anyhow::Result<()> {
    let written = outputs.write_json(&report.json())?.written();
    print(&[report.text(), written].join("\n"))
}

const fn outcome(is_all_well: bool) -> Outcome {
    if is_all_well { Outcome::Done } else { Outcome::NotAllWell }
}

fn print(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{}", text.trim_end()).context("cannot write to stdout")
}

/// Prints what is `off`, if anything.
fn judged(off: &[String], what: &str) -> Result<Outcome, Fault> {
    if off.is_empty() {
        print("all within the tolerance")?;
        return Ok(Outcome::Done);
    }
    print(&format!("\n{} {what}:\n  {}", off.len(), off.join("\n  ")))?;
    Ok(Outcome::Regressed)
}

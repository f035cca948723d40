//! What each command does: prepares, measures, writes, prints.

pub(crate) mod args;

use std::{io::Write, path::Path, sync::Arc};

use anyhow::{Context, anyhow};
use nekoindexer::daemon::threads::THREADS_DEFAULT;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::args::Args;
use self::args::{Command, Detailed, Drawn, Run, Target};
use crate::measure::measure;
use crate::outcome::{Begin, Fault, Outcome};
use crate::report::outputs::{OutFile, Outputs};
use crate::report::{Report, option_name};
use crate::run::setup::{Connecting, Setup};
use crate::run::watch::note;
use crate::transfer::folder::Folder;
use crate::{
    batch, compare, connections, consistency, goals, hostile, index, instructions, load, matrix, node,
    pipeline, relay, soak, transfer,
};
use crate::{
    cluster::deployment::Deployment, floor::layouts, plan::scenario::Load, plan::scenario::Scenario,
};

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
        Command::Floor(output) => finish(|| layouts::measure(&Arc::default()), &output),
        Command::Index(args) => run_apart(&args, index::run),
        Command::Goals(args) => finish(|| goals::search::run(&args.options, &Arc::default()), &args.output),
        Command::Connections(args) => run_apart(&args, connections::run),
        Command::Matrix(matrix) => run_matrix(&matrix),
        Command::Transfer(args) => run_transfer(&args),
        Command::Hostile(args) => run_apart(&args, hostile::run),
        Command::Soak(args) => run_apart(&args, soak::run),
        Command::Batch(args) => run_apart(&args, batch::run),
        Command::Pipeline(args) => run_apart(&args, pipeline::run),
        Command::Relay(args) => run_apart(&args, relay::run),
        Command::Load(args) => run_apart(&args, load::run),
        Command::Consistency(args) => finish(|| run_consistency(&args.options), &args.output),
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

fn run_query(args: &Run<Scenario, Setup, Detailed>) -> Result<Outcome, Fault> {
    args.options.graph().or_cannot_begin()?;
    if args.options.idle_s > 0 && !args.how.processes {
        return Err(Fault::Begin(anyhow!("--idle is measured of processes: give --processes")));
    }
    let work = async |on: Deployment| Ok(measure(&args.options, &on).await?.report());
    finish(|| args.how.on_threads(&Arc::default(), work), &args.output)
}

fn run_matrix(args: &Run<Load, Setup, Drawn>) -> Result<Outcome, Fault> {
    let base = Scenario { load: args.options.clone(), ..Scenario::default() };
    for (indexers, clients, ttl_hops) in matrix::ROWS {
        Scenario { indexers, clients, ttl_hops, ..base.clone() }.graph().or_cannot_begin()?;
    }
    let work = async |on: Deployment| matrix::run(&base, &on).await;
    finish(|| args.how.on_threads(&Arc::default(), work), &args.output)
}

fn run_transfer(args: &args::Transfer) -> Result<Outcome, Fault> {
    let scenarios = args.scenarios();
    scenarios.iter().try_for_each(transfer::scenario::Scenario::check).or_cannot_begin()?;
    let folder = Folder::prepare(args.dir.as_deref()).or_cannot_begin()?;
    let most = scenarios.iter().map(transfer::scenario::Scenario::disk_bytes).max();
    let outputs = args.output.prepare()?;
    folder.has_room(most.unwrap_or(0)).or_cannot_begin()?;
    let setup = Setup::apart(Connecting { insecure: args.insecure, threads: THREADS_DEFAULT });
    let work = async |on: Deployment| match args.goals {
        true => Ok(goals::transfer::run(&args.goals(), &folder, &on).await),
        false => transfer::run(&scenarios, &folder, &on).await,
    };
    written(setup.on_threads(&Arc::default(), work)?, outputs)
}

fn run_consistency(options: &consistency::Options) -> Result<Report, Fault> {
    let tables = consistency::run(options)?;
    // A promise that is broken is a result.
    Ok(Report { pictures: consistency::pictures(&tables), ..consistency::report(&tables, options) })
}

/// Measures nodes that are processes of their own.
fn run_apart<O: clap::Args + Sync, T: clap::Args + Target + Sync>(
    args: &Run<O, Connecting, T>,
    work: impl AsyncFnOnce(&O, &Deployment) -> Result<Report, Fault> + Send,
) -> Result<Outcome, Fault> {
    let done = async |on: Deployment| work(&args.options, &on).await;
    finish(|| Setup::apart(args.how.clone()).on_threads(&Arc::default(), done), &args.output)
}

fn run_compare(args: &args::Compare) -> Result<Outcome, Fault> {
    let read = |path: &Path| read::<Value>(path, &format!("cannot read the result {}", path.display()));
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let (table, worse) = compare::compare(&before, &after, args.rule).or_cannot_begin()?;
    print(&table)?;
    judged(&worse, "worse by more than the tolerance")
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
        let file = OutFile::prepare(&args.recorded).or_cannot_begin()?;
        let counted = serde_json::to_value(count()?).or_cannot_begin()?;
        let path = file.write(|out| Ok(writeln!(out, "{counted:#}")?))?;
        print(&format!("wrote {}", path.display()))?;
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

/// Does the `work` once it is sure that its results can be written.
fn finish(work: impl FnOnce() -> Result<Report, Fault>, target: &impl Target) -> Result<Outcome, Fault> {
    let outputs = target.prepare()?;
    written(work()?, outputs)
}

/// Writes the results, and prints them together with what was written, which is on disk by then.
fn written(mut report: Report, outputs: Outputs) -> Result<Outcome, Fault> {
    let written = outputs.write(&mut report)?;
    print(&[report.text(), written].join("\n"))?;
    Ok(if report.is_broken || report.interrupted { Outcome::NotAllWell } else { Outcome::Done })
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

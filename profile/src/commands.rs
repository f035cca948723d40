//! What each command does: prepares, measures, prints, writes. The only room that prints.

pub mod args;
pub mod interrupt;
pub mod outcome;
pub mod progress;

use std::{io::Write, path::PathBuf, sync::Arc};

use anyhow::Context;
use serde_json::Value;

use self::{
    args::{Args, Command, Setup},
    outcome::{Begin, Fault, Outcome},
};
use crate::{
    cluster::{
        layout::{Layout, Runtimes},
        node::Place,
        serve,
    },
    compare,
    floor::layouts,
    index::{self, Options},
    instructions, matrix,
    measure::{Measured, measure},
    plot,
    report::{
        machine,
        outputs::{OutFile, OutFolder},
    },
    run::Watch,
};

/// Does what the arguments say.
///
/// # Errors
/// Why it could not begin, or what went wrong then.
pub fn run(args: Args) -> Result<Outcome, Fault> {
    nekoproto::transport::raise_file_limit();
    match args.command {
        Command::Query(query) => run_query(&query),
        Command::Floor(floor) => run_floor(&floor),
        Command::Index(index) => run_index(&index),
        Command::Matrix(matrix) => run_matrix(&matrix),
        Command::Compare(compare) => run_compare(&compare),
        Command::Instructions(instructions) => run_instructions(&instructions),
        Command::Serve(serve) => {
            let security = args::security(serve.insecure);
            serve::serve(serve.kind, serve.listen, serve.neighbor, security).or_cannot_begin()?;
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
    print(&measured.table())?;
    write_json(json, &measured.json())?;
    if let Some(csv) = csv {
        print_written(&csv.write(|out| Ok(measured.samples.write_csv(out)?))?)?;
    }
    if let Some(folder) = folder {
        for path in plot::draw_measured(folder.path(), &measured)? {
            print_written(&path)?;
        }
    }
    Ok(outcome(std::slice::from_ref(&measured)))
}

fn run_matrix(args: &args::Matrix) -> Result<Outcome, Fault> {
    let base = args.load.scenario();
    for (indexers, clients, ttl_hops) in matrix::ROWS {
        crate::plan::scenario::Scenario { indexers, clients, ttl_hops, ..base.clone() }
            .graph()
            .or_cannot_begin()?;
    }
    let (json, folder) = (prepare_file(&args.json)?, prepare_folder(args.plot.as_ref())?);
    let rows = on_threads(&args.setup, async |place, watch| matrix::run(&base, &place, &watch).await)?;
    let setting = rows.first().map(Measured::setting).unwrap_or_default();
    print(&format!("{setting}, {}\n\n{}", machine::in_words(), matrix::markdown(&rows)))?;
    write_json(json, &matrix::json(&rows))?;
    if let Some(folder) = folder {
        for path in matrix::draw(folder.path(), &rows)? {
            print_written(&path)?;
        }
    }
    Ok(outcome(&rows))
}

fn run_floor(args: &args::Floor) -> Result<Outcome, Fault> {
    let json = prepare_file(&args.json)?;
    let rows = layouts::measure(&Arc::default()).or_cannot_begin()?;
    print(&layouts::table(&rows))?;
    write_json(json, &layouts::json(&rows))?;
    Ok(Outcome::Done)
}

fn run_index(args: &args::Index) -> Result<Outcome, Fault> {
    let options = Options {
        names: args.names.iter().map(|names| *names as usize).collect(),
        depths: args.depths.iter().copied().map(usize::from).collect(),
        batches: args.batches.iter().copied().map(usize::from).collect(),
        lookups: args.lookups as usize,
        seed: args.seed,
    };
    let json = prepare_file(&args.json)?;
    let setup = Setup { layout: Layout::Processes, processes: true, insecure: args.insecure, port: 0 };
    let report = on_threads(&setup, async |place, watch| index::run(&options, &place, &watch).await)?;
    print(&report.table())?;
    write_json(json, &report.json())?;
    Ok(if report.interrupted { Outcome::NotAllWell } else { Outcome::Done })
}

fn run_compare(args: &args::Compare) -> Result<Outcome, Fault> {
    let read = |path: &PathBuf| -> anyhow::Result<Value> {
        let cannot = || format!("cannot read the result {}", path.display());
        let text = std::fs::read_to_string(path).with_context(cannot)?;
        serde_json::from_str(&text).with_context(cannot)
    };
    let is_share = args.tolerance.is_finite() && args.tolerance >= 0.0;
    (if is_share {
        Ok(())
    } else {
        Err(anyhow::anyhow!("the tolerance is a share of at least 0, such as 0.1"))
    })
    .or_cannot_begin()?;
    let (before, after) = (read(&args.before).or_cannot_begin()?, read(&args.after).or_cannot_begin()?);
    let rule = compare::Rule { tolerance: args.tolerance, per_floor: args.per_floor };
    let comparison = compare::compare(&before, &after, rule).or_cannot_begin()?;
    print(comparison.table.trim_end())?;
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
    let file = if args.record { Some(OutFile::prepare(&args.recorded).or_cannot_begin()?) } else { None };
    let counted =
        instructions::count_all(|hot| note(&format!("counting {}", hot.name()))).or_cannot_begin()?;
    if let Some(file) = file {
        let path = file.write(|out| Ok(writeln!(out, "{}", serde_json::to_string_pretty(&counted)?)?))?;
        print_written(&path)?;
    }
    let Some(recorded) = recorded else { return Ok(Outcome::Done) };
    let judgement = instructions::judge(&recorded, &counted, args.tolerance).or_cannot_begin()?;
    print(judgement.table.trim_end())?;
    print_off(&judgement.off, "off by more than the tolerance")
}

/// Runs `work` where the clients run, with Ctrl-C ending it early.
fn on_threads<T>(
    setup: &Setup,
    work: impl AsyncFnOnce(Place, Arc<Watch>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let runtimes = Runtimes::new(setup.layout()).or_cannot_begin()?;
    runtimes.run(|indexers| async {
        let watch = Arc::new(Watch::default());
        interrupt::listen(Arc::clone(&watch)).or_cannot_begin()?;
        work(setup.place(indexers), watch).await
    })
}

fn outcome(rows: &[Measured]) -> Outcome {
    if rows.iter().all(Measured::is_all_well) { Outcome::Done } else { Outcome::NotAllWell }
}

fn prepare_file(path: &Option<PathBuf>) -> Result<Option<OutFile>, Fault> {
    path.as_deref().map(OutFile::prepare).transpose().or_cannot_begin()
}

fn prepare_folder(path: Option<&PathBuf>) -> Result<Option<OutFolder>, Fault> {
    path.map(|path| OutFolder::prepare(path)).transpose().or_cannot_begin()
}

fn write_json(file: Option<OutFile>, value: &Value) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    print_written(&file.write(|out| Ok(writeln!(out, "{}", serde_json::to_string_pretty(value)?)?))?)
}

fn print(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}").context("cannot write to stdout")
}

fn print_written(path: &std::path::Path) -> anyhow::Result<()> {
    print(&format!("wrote {}", path.display()))
}

fn print_off(off: &[String], what: &str) -> Result<Outcome, Fault> {
    if off.is_empty() {
        print("all within the tolerance")?;
        return Ok(Outcome::Done);
    }
    print(&format!("\n{} {what}:", off.len()))?;
    off.iter().try_for_each(|line| print(&format!("  {line}")))?;
    Ok(Outcome::Regressed)
}

/// Says on stderr what is going on.
fn note(text: &str) {
    // Nobody is left to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

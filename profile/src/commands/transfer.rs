//! `profile transfer`: checks what was asked for, measures, writes, prints.

use super::{
    args::transfer::Transfer, on_threads, outcome, prepare_file, prepare_folder, print, process, write_json,
};
use crate::{
    goals as shown,
    outcome::{Begin, Fault, Outcome},
    transfer::{self, folder::Folder, goals},
};
use nekoindexer::threads::THREADS_DEFAULT;

/// Does what the arguments say.
pub(super) fn run(args: &Transfer) -> Result<Outcome, Fault> {
    let scenarios = args.scenarios();
    scenarios.iter().try_for_each(transfer::scenario::Scenario::check).or_cannot_begin()?;
    let folder = Folder::prepare(args.dir.as_deref()).or_cannot_begin()?;
    let most = scenarios.iter().map(transfer::scenario::Scenario::disk_bytes).max();
    folder.has_room(most.unwrap_or(0)).or_cannot_begin()?;
    if args.goals {
        return run_goals(args, &folder);
    }
    let [json, csv] = [&args.json, &args.csv].map(prepare_file);
    let (json, csv, plots) = (json?, csv?, prepare_folder(args.plot.as_ref())?);
    let setup = process(args.insecure, THREADS_DEFAULT);
    let work = async |place, watch| transfer::run(&scenarios, &folder, &place, &watch).await;
    let report = on_threads(&setup, work)?;
    let mut written = write_json(json, &report.json())?;
    if let Some(csv) = csv {
        written.push(csv.write(|out| Ok(report.write_csv(out)?))?);
    }
    if let Some(plots) = plots {
        written.extend(report.draw(plots.path())?);
    }
    print(report.table().trim_end(), &written)?;
    Ok(outcome(report.is_all_well()))
}

fn run_goals(args: &Transfer, folder: &Folder) -> Result<Outcome, Fault> {
    let json = prepare_file(&args.json)?;
    let options = args.goals();
    let measured = on_threads(&process(false, THREADS_DEFAULT), async |place, watch| {
        let (rows, all_well) = goals::run(&options, folder, &place, &watch).await;
        Ok((rows, all_well, watch.is_stopped()))
    });
    let (rows, all_well, is_stopped) = measured?;
    let written = write_json(json, &shown::json(&rows, is_stopped))?;
    print(&format!("{}.\n{}", folder.in_words(), shown::table(&rows)), &written)?;
    // A goal that is missed is a result; a wrong file, or one that did not arrive, is not.
    Ok(outcome(all_well))
}

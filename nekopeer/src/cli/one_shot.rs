//! Commands that run once: verbs, `serve` until Ctrl-C, and `stop`.

use std::time::{Duration, Instant};

use nekoindexer::daemon::signals::Stop;
use nekoproto::{Identity, private_folder};
use tempfile::TempDir;
use tokio::time::sleep;

use super::{
    Ended,
    args::NodeArgs,
    flags,
    hosting::Hosted,
    reach::{LOCKED_MAX, Reached, reach, running},
    run::{run, run_beside},
    serving::serve_until,
    show, unless_stopped,
    verbs::Verb,
};
use crate::{
    api::{Answer, Command, Done, Failure, FailureKind, Framed, Need, Saying, Stop as End, no_input},
    door::Facts,
    failure::Reason,
    peer::{KEY_FILE, lost_key},
    storage::{catalogue, lock::DataLock},
    terminal::Output,
};

const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) async fn run_verb(args: &NodeArgs, verb: Verb, output: Output) -> anyhow::Result<Ended> {
    let mut stop = Stop::new()?; // before anything is printed: who reads that may interrupt the command
    let saying = Saying { dir: &args.dir, policy: args.policy.change(), line: None };
    let Some(mut command) = verb.command(saying, output)? else { return Ok(Ended::Usage) };
    if let Command::Stop(_) = command {
        let stopped = unless_stopped(&mut stop, stop_peer(args, output)).await.transpose()?;
        return Ok(stopped.unwrap_or_else(|| show::interrupted(output)));
    }
    let (args, _removed) = &without_new_folders(args, &command, output)?;
    let need = command.api().about().need;
    if need == Need::Running {
        let Some(running) = unless_stopped(&mut stop, running(args.data_dir(), output)).await else {
            return Ok(show::interrupted(output));
        };
        if matches!(running, Err(Failure { reason: Reason::NoPeer, .. })) {
            return nobody_runs(args, &command, output);
        }
    }
    loop {
        let args_there = args.for_command(&command);
        let reaching = reach(&args_there, need, Some(&command), output);
        let Some(reached) = unless_stopped(&mut stop, reaching).await else {
            return Ok(show::interrupted(output));
        };
        let mut reached = reached?;
        let watching = command.api().about().then;
        let ended = on_reached(&mut reached, args, &command, watching.as_ref(), output, &mut stop).await;
        match (ended, watching) {
            // A connection is for one command.
            (Ok(Some(Ended::Well | Ended::Partly)), Some(watching)) if reached.is_there() => {
                reached.end(false).await;
                command = watching;
            }
            (Ok(None), _) => reached.end(false).await,
            (ended, _) => {
                let refusal = reached.refusal();
                let is_patient = !matches!(ended, Ok(Some(Ended::Interrupted))) && need != Need::Serving;
                if let (true, Reached::Here(hosted)) = (is_patient, &reached) {
                    seed(hosted, &command, output, &mut stop).await;
                }
                unless_stopped(&mut stop, reached.end(is_patient)).await;
                if let Some(refusal) = refusal {
                    return Err(refusal);
                }
                return match ended? {
                    Some(Ended::Interrupted) if command.api().about().is_endless => Ok(Ended::Well),
                    ended => Ok(ended.unwrap_or(Ended::Interrupted)),
                };
            }
        }
    }
}

/// Serves what was downloaded as long as others download it, or the user has the patience.
async fn seed(hosted: &Hosted, command: &Command, output: Output, stop: &mut Stop) {
    let (Some(membership), Some(secs)) = (&hosted.host.peer.membership, command.api().about().seed_secs)
    else {
        return;
    };
    if membership.is_asked() {
        output.note(&format!("others download it from here: serves them for {secs} s at most, Ctrl-C ends"));
        tokio::select! {
            () = membership.seed(Instant::now() + Duration::from_secs(secs.into())) => {}
            () = stop.wait() => {}
            () = hosted.stopped() => {}
        }
    }
}

/// What `command` is carried out with: where no peer was before, one that only asks has a data folder for the moment, and
/// leaves nothing behind.
fn without_new_folders(
    args: &NodeArgs,
    command: &Command,
    output: Output,
) -> anyhow::Result<(NodeArgs, Option<TempDir>)> {
    let about = command.api().about();
    let stores = about.stores_files || matches!(command, Command::Get(_));
    let (dir, folder) = (args.dir.display(), args.data_dir());
    let is_missing = matches!(args.dir.try_exists(), Ok(false));
    if !stores && is_missing && about.need != Need::Indexer {
        let why = format!("{dir} is no folder: check --dir; serve, share, get and follow make it");
        return Err(Failure::with(FailureKind::NoSuchPath, why).into());
    }
    // What cannot be looked at is there, and the command says what is wrong with it.
    let is_there = |name| folder.join(name).try_exists().unwrap_or(true);
    let is_new = !is_there(KEY_FILE) && !is_there(catalogue::FILE);
    if stores || about.is_endless || about.need == Need::Running || !is_new {
        return Ok((args.clone(), None));
    }
    if about.need == Need::Catalogue {
        output.note(&format!("note: no peer was here: {} has no key; check --dir", folder.display()));
    }
    let removed = tempfile::tempdir()?;
    let folder = removed.path().to_owned();
    let dir = if is_missing { folder.clone() } else { args.dir.clone() };
    Ok((NodeArgs { dir, data_dir: Some(folder), ..args.clone() }, Some(removed)))
}

fn nobody_runs(args: &NodeArgs, command: &Command, output: Output) -> anyhow::Result<Ended> {
    match command.api().without_peer(&args.data_dir().display().to_string()) {
        Ok(_) if output.is_json() => {
            output.print(&Framed::new(command.api().about().shape).end(&Done::all().fields))?
        }
        Ok(why) => output.note(&why),
        Err(failure) => {
            let ended = show::failure(&failure, output);
            return Ok(if failure.kind == FailureKind::Invalid { Ended::Usage } else { ended });
        }
    }
    Ok(Ended::Well)
}

/// Has a command carried out; a peer of this process then serves what was published, and carries out `watching`.
async fn on_reached(
    reached: &mut Reached,
    args: &NodeArgs,
    command: &Command,
    watching: Option<&Command>,
    output: Output,
    stop: &mut Stop,
) -> anyhow::Result<Option<Ended>> {
    let need = command.api().about().need;
    if let Reached::There(caller) = reached {
        flags::check(args, &caller.facts, need, command.api().about().stores_files, output)?;
    }
    // What is followed is told in the answer.
    let follows = matches!(command, Command::Follow(_));
    if let (Reached::Here(hosted), Need::Serving, false) = (&mut *reached, need, follows) {
        hosted.show_events(true, output);
    }
    let (ended, watching) = match reached {
        // A peer that carried it out has ended.
        Reached::Here(_) if matches!(command, Command::Watch(_)) => (Some(Ended::Well), Some(command)),
        _ => (run(reached, command, output, stop).await?, watching),
    };
    if let (Reached::Here(hosted), Need::Serving, None, false) = (&*reached, need, watching, follows) {
        hosted.note_changed(output);
    }
    if let (Some(ended), Need::Serving, false) = (&ended, need, follows) {
        match reached {
            Reached::Here(hosted) if matches!(ended, Ended::Well | Ended::Partly) => {
                let _watching = watching.map(|command| run_beside(hosted, command.clone(), output));
                serve_until(hosted, args, output, stop).await;
            }
            Reached::There(caller) if *ended == Ended::Well => {
                let facts @ Facts { process, node, .. } = &caller.facts;
                output.note(&format!("served by process {process} on {} as {node}", facts.addr()));
            }
            Reached::Here(_) | Reached::There(_) => {}
        }
    }
    Ok(ended)
}

pub(super) async fn serve(args: &NodeArgs, output: Output) -> anyhow::Result<Ended> {
    let mut stop = Stop::new()?;
    let reaching = reach(args, Need::Serving, None, output);
    let mut hosted = match unless_stopped(&mut stop, reaching).await.transpose()? {
        None => return Ok(show::interrupted(output)),
        Some(Reached::Here(hosted)) => hosted,
        Some(Reached::There(caller)) => {
            let (folder, process) = (args.data_dir(), caller.facts.process);
            let folder = folder.display();
            let why = format!(
                "a peer already runs on the data folder {folder} (process {process}): nekopeer stop ends it"
            );
            return Err(Failure::with(FailureKind::Busy, why).into());
        }
    };
    hosted.show_events(false, output);
    tokio::select! {
        () = hosted.host.peer.indexers_tried() => serve_until(&hosted, args, output, &mut stop).await,
        () = stop.wait() => {}
        () = hosted.stopped() => {}
    }
    let refusal = hosted.refusal();
    unless_stopped(&mut stop, hosted.end(false)).await;
    refusal.map_or(Ok(Ended::Well), Err)
}

/// Prints the id of the peer of this data folder; its key is made if there is none.
pub(super) fn id(args: &NodeArgs, output: Output) -> anyhow::Result<Ended> {
    let folder = args.data_dir();
    let key = folder.join(KEY_FILE);
    private_folder(&folder).map_err(Failure::from)?;
    if let Some(failure) = lost_key(&folder) {
        return Err(failure.into());
    }
    let node = Identity::load_or_create(&key)?.id();
    match output.is_json() {
        true => output.object(&serde_json::json!({ "node": node.to_string() }))?,
        false => output.line(&node.to_string())?,
    }
    Ok(Ended::Well)
}

/// Ends the peer that runs on the data folder, and waits until it is gone.
pub(super) async fn stop_peer(args: &NodeArgs, output: Output) -> anyhow::Result<Ended> {
    let folder = args.data_dir();
    let began = Instant::now();
    let mut caller = loop {
        match running(folder.clone(), output).await {
            Ok(caller) => break caller,
            Err(Failure { reason: Reason::NoPeer, .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match DataLock::holder(&folder)? {
            None => {
                let why = format!("no peer runs on the data folder {}", folder.display());
                return Ok(show::failure(&Failure::missing(why), output));
            }
            // It has just started, or is about to end.
            Some(_) if began.elapsed() < LOCKED_MAX => sleep(LOOK_EVERY).await,
            Some(process) => {
                let why = format!(
                    "process {process} has locked {} and takes no commands: kill {process} ends it",
                    folder.display()
                );
                return Err(Failure::with(FailureKind::Busy, why).into());
            }
        }
    };
    flags::check(args, &caller.facts, Need::Catalogue, false, output)?;
    let process = caller.facts.process;
    let (answer, _replies) = Answer::channel();
    // Without an answer the peer has ended, or the command came too late, as where this process had to wait for its turn.
    while caller.carry_out(End {}.into(), no_input(), &answer).await.is_err()
        && DataLock::holder(&folder)? == Some(process)
    {
        sleep(LOOK_EVERY).await;
        match running(folder.clone(), output).await {
            Ok(again) if again.facts.process == process => caller = again,
            Ok(_) | Err(Failure { reason: Reason::NoPeer, .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    drop(caller);
    while DataLock::holder(&folder)? == Some(process) {
        sleep(LOOK_EVERY).await;
    }
    output.say(&format!("stopped the peer of {} (process {process})", folder.display()))?;
    Ok(Ended::Well)
}

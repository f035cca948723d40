//! Runs one command: on a peer of this process, or on the one that runs already.

use std::{
    io::{self, BufReader},
    path::Path,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use nekoindexer::daemon::signals::Stop;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{Ended, hosting::Hosted, reach::Reached, show};
use crate::api::{
    About, Answer, Command, Done, Failure, FailureKind, INPUT_WAITING_MAX, Input, PIECE_BYTES, Piece,
    PieceWriter, Reply, no_input,
};
use crate::door::Facts;
use crate::terminal::Output;

const INTERRUPTED: &str = "interrupted; what came so far is kept";
/// The same for what comes on stdin. The storing of a complete input is not interrupted.
const INTERRUPTED_INPUT: &str = "interrupted; stdin is stored only if it had ended";

/// Time limit for the output of an interrupted command, where nobody takes it; a second Ctrl-C ends it at once.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);

/// `None`: the running peer ended before the command began; it is to be repeated.
pub(super) async fn run(
    reached: &mut Reached,
    command: &Command,
    output: Output,
    stop: &mut Stop,
) -> anyhow::Result<Option<Ended>> {
    let stopped = match &*reached {
        Reached::Here(hosted) => hosted.host.stop.clone(),
        Reached::There(_) => CancellationToken::new(),
    };
    let (answer, shown) = show_on_thread(command.clone(), output);
    let interrupted = answer.clone();
    let showing = async { shown.await.unwrap_or_else(|_| Err(anyhow::anyhow!("the output failed"))) };
    tokio::pin!(showing);
    let is_interrupted = tokio::select! {
        biased;
        is_moved = carried_out(reached, command, answer) => {
            if is_moved {
                return Ok(None);
            }
            false
        }
        shown = &mut showing => return shown.map(Some), // the output failed
        () = stop.wait() => true,
        () = stopped.cancelled() => true,
    };
    if !is_interrupted {
        tokio::select! {
            shown = &mut showing => return shown.map(Some),
            () = stop.wait() => {} // nobody takes what is printed
        }
    }
    let text = if command.api().about().takes_input { INTERRUPTED_INPUT } else { INTERRUPTED };
    let is_told = !command.api().about().is_endless && reached.refusal().is_none(); // the caller tells that
    let ending = async {
        if is_told {
            let failure = Failure::with(FailureKind::Cancelled, text);
            drop(interrupted.0.send(Reply::Finished(Err(failure))).await); // the output may have failed
        }
        drop(interrupted);
        showing.await
    };
    let is_shown = tokio::select! {
        shown = timeout(SHOWN_WITHIN, ending) => shown.is_ok(),
        () = stop.wait() => false,
    };
    if !is_shown && is_told {
        output.note(text);
    }
    Ok(Some(Ended::Interrupted))
}

/// Carries out an endless command on a peer of this process, and shows its answer, until the handle is dropped.
pub(super) fn run_beside(hosted: &Hosted, command: Command, output: Output) -> AbortOnDropHandle<()> {
    let (answer, _shown) = show_on_thread(command.clone(), output);
    let mut caller = hosted.caller();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let result = caller.carry_out(command, no_input(), &answer).await;
        drop(answer.0.send(Reply::Finished(result)).await); // the output may have failed
    }))
}

/// Has the command carried out and sends its answer. Returns whether it is to be repeated elsewhere.
async fn carried_out(reached: &mut Reached, command: &Command, answer: Answer) -> bool {
    let About { takes_input, is_endless, is_once, .. } = command.api().about();
    let (is_there, mut here) = (reached.is_there(), None);
    let caller = match reached {
        Reached::Here(hosted) => here.insert(hosted.caller()),
        Reached::There(caller) => &mut **caller,
    };
    let unread = Arc::default();
    let input = if takes_input { pieces_of_stdin(&unread) } else { no_input() };
    let mut result = caller.carry_out(command.clone(), input, &answer).await;
    if let (Err(failure), Some(why)) = (&mut result, OnceLock::get(&unread)) {
        *failure = Failure::new(format!("stdin cannot be read to its end, and is not stored: {why}"));
    }
    if let Some(note) = is_there.then(|| unseen(command, &caller.facts, &result)).flatten() {
        drop(answer.0.send(Reply::Note(note)).await); // the output may have failed
    }
    if let Err(failure) = &mut result
        && failure.kind == FailureKind::Moved
    {
        if !takes_input && !is_once && (is_endless || !caller.is_answered) {
            return true;
        }
        // It cannot be repeated: a part was shown, the input is gone, or it may have been carried out.
        *failure = Failure::new(std::mem::take(&mut failure.message));
    }
    drop(answer.0.send(Reply::Finished(result)).await); // the output may have failed
    false
}

/// What to say if the running peer failed at a path that is there: it may be another user's, or shut in.
fn unseen(command: &Command, facts: &Facts, result: &Result<Done, Failure>) -> Option<String> {
    let said = match result {
        Err(failure) => failure.message.clone(),
        Ok(done) => done.fields.text().to_owned(),
    };
    if !["Permission denied", "Read-only file system"].iter().any(|errno| said.contains(errno)) {
        return None;
    }
    let paths = command.api().about().paths.into_iter().flat_map(|path| path.ancestors().take(2));
    let is_unseen =
        |path: &&Path| said.contains(&path.display().to_string()) && path.parent().is_some_and(Path::exists);
    let path = paths.into_iter().find(is_unseen)?.display().to_string();
    Some(format!(
        "the running peer (process {}) carries this out, and cannot use {path}, which its user may not see: {}",
        facts.process,
        instead(facts)
    ))
}

fn instead(facts: &Facts) -> String {
    format!(
        "name a path below {}, let the bytes come from stdin or go to stdout (share - --name NAME, get NAME -o -), or use \
         another --data-dir",
        facts.dir.0.display()
    )
}

/// Starts to show an answer, on a thread: printing blocks.
fn show_on_thread(command: Command, output: Output) -> (Answer, oneshot::Receiver<anyhow::Result<Ended>>) {
    let (answer, replies) = Answer::channel();
    let (done, shown) = oneshot::channel();
    thread::spawn(move || drop(done.send(show::answer(&command, output, replies))));
    (answer, shown)
}

/// Reads stdin on a thread, since that blocks, until the command takes no more; an error is noted in `unread` first. The thread
/// ends with the process.
fn pieces_of_stdin(unread: &Arc<OnceLock<String>>) -> Input {
    let unread = Arc::clone(unread);
    let (sender, input) = mpsc::channel(INPUT_WAITING_MAX);
    thread::spawn(move || {
        let mut stdin = BufReader::with_capacity(PIECE_BYTES, io::stdin().lock());
        let last = match io::copy(&mut stdin, &mut PieceWriter(sender.clone(), Piece::Bytes)) {
            Ok(_) => Piece::End,
            Err(error) => Piece::Failed(unread.get_or_init(|| error.to_string()).clone()),
        };
        drop(sender.blocking_send(last)); // it may take no more
    });
    input
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::Saying, cli::Args, publish::PolicyChange};

    #[test]
    fn path_that_the_running_peer_may_not_use_is_told_as_that() {
        use clap::Parser;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("thesis"), "t").unwrap();
        let facts = Facts::of_test(Path::new("/var/lib/neko"));
        let said = |words: &[&str], why: String| {
            let args = Args::parse_from(["nekopeer"].iter().chain(words));
            let Some(crate::cli::args::Command::Verb(verb)) = args.command else { panic!("no verb") };
            let saying = Saying { dir: dir.path(), policy: PolicyChange::default(), line: None };
            let command = verb.command(saying, Output::new(false, false)).unwrap().unwrap();
            unseen(&command, &facts, &Err(Failure::new(why)))
        };
        let (file, absent) = (path("thesis"), path("absent"));
        let folder = dir.path().display().to_string();
        let hint = said(&["share", &file], format!("cannot read {file}: Permission denied (os error 13)"));
        let hint = hint.unwrap();
        assert!(
            hint.contains("process 7") && hint.contains(&file) && hint.contains("/var/lib/neko"),
            "{hint}"
        );
        let into = ["get", "n", "-o", &absent];
        for why in [
            format!("cannot use {absent}: Permission denied (os error 13)"),
            format!("cannot use the data folder {folder}/.neko-parts: Read-only file system (os error 30)"),
        ] {
            assert!(said(&into, why.clone()).is_some(), "{why}");
        }
        assert!(said(&["share", &file], format!("cannot read {file}: Input/output error")).is_none());
        assert!(said(&["get", "n"], format!("cannot use {folder}: Permission denied")).is_none());
    }
}

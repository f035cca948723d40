//! The command that is run on each new version.

use std::{
    io,
    os::unix::{ffi::OsStrExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nekoproto::{Record, Version};
use rustix::process::{Pid, Signal, kill_process_group};
use scopeguard::guard;
use tokio::{process::Command, sync::mpsc, time::timeout};

use super::output::HookRun;
use crate::{
    library::events::Event,
    storage::catalogue::CommandId,
    util::{reaping, tasks::Tasks},
};

/// Characters of its last words that a message quotes.
const QUOTED_MAX: usize = 200;
/// Time limit for output that comes after its end and counts as its own.
const LATE_OUTPUT_MAX: Duration = Duration::from_millis(100);
/// How long after its end what it started in the background is shown, which may keep its pipes for ever.
const SERVICE_SHOWN_FOR: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) command: String,
    pub(crate) folder: PathBuf,
    pub(crate) time: Duration,
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "it did not end".to_owned(),
    }
}

fn not_run(error: io::Error) -> String {
    format!("the command cannot be run: {error}")
}

fn quoted(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

impl Hook {
    /// Identifies it by its text and its folder.
    pub(super) fn id(&self) -> CommandId {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.command.as_bytes()).update(&[0]).update(self.folder.as_os_str().as_bytes());
        CommandId(hasher.finalize().into())
    }

    /// Runs the command to its end on a version that is at `path`, where `previous` is the last that it accepted; what it
    /// prints goes to `shown` line by line. The error says why it failed. What it started in the background goes on, and is
    /// shown for a while by one of the `tasks`.
    ///
    /// # Cancel safety
    /// It is killed, with all that it started.
    pub(super) async fn run(
        &self,
        record: &Record,
        path: &Path,
        previous: Option<Version>,
        shown: &mpsc::Sender<Event>,
        tasks: &Tasks,
    ) -> Result<(), String> {
        let mut shell = Command::new("/bin/sh");
        let shell = shell
            .arg("-c")
            .arg(&self.command)
            .current_dir(&self.folder)
            .env("NEKO_NAME", record.name.as_str())
            .env("NEKO_VERSION", record.version.to_string())
            .env("NEKO_PATH", path)
            .env("NEKO_PREVIOUS_VERSION", previous.map(|version| version.to_string()).unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let (mut child, _awaited) = reaping::spawn(shell).map_err(not_run)?; // there is no shell, or no such folder
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        // Killed with all that it started, unless disarmed. It may have ended.
        let mut group = guard(group, |group| _ = group.map(|group| kill_process_group(group, Signal::KILL)));
        let mut printing = HookRun::new(&record.name, shown, child.stdout.take(), child.stderr.take());
        let status = {
            let reading = printing.read();
            tokio::pin!(reading);
            let waiting = timeout(self.time, child.wait());
            tokio::pin!(waiting);
            tokio::select! {
                status = &mut waiting => {
                    if matches!(status, Ok(Ok(_))) {
                        let _ = timeout(LATE_OUTPUT_MAX, reading).await;
                    }
                    status
                }
                () = &mut reading => waiting.await,
            }
        };
        let words: String = printing.last().trim().chars().take(QUOTED_MAX).collect();
        match status {
            // The group is killed.
            Err(_) => {
                Err(format!("the command was killed after {} s{}", self.time.as_secs(), quoted(&words)))
            }
            Ok(Err(error)) => Err(not_run(error)),
            Ok(Ok(status)) => {
                *group = None; // a service that it started goes on
                if printing.is_open() {
                    tasks.spawn_until_stop(printing.keep(SERVICE_SHOWN_FOR));
                }
                match status.success() {
                    true => Ok(()),
                    false => Err(format!("the command failed, {}{}", ended(status), quoted(&words))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    async fn run(command: &str, time: Duration) -> Result<(), String> {
        let folder = std::env::temp_dir();
        let hook = Hook { command: command.to_owned(), folder, time };
        let (record, nobody) = (testkit::goods::record(1, "a b", 3, |_| {}), mpsc::channel(1).0);
        hook.run(&record, Path::new("/x/a b"), Version::new(2), &nobody, &Tasks::default()).await
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn failure_quotes_the_last_words() {
        let error = run("echo out; echo 'no\u{1b}[31m such model' >&2; exit 7", LONG).await.unwrap_err();
        assert_eq!(error, "the command failed, exit code 7: no[31m such model");
    }

    #[tokio::test]
    async fn command_that_hangs_is_killed_with_what_it_started() {
        let (_folder, file) = testkit::temp_path("pid");
        let command = format!("sleep 1000 & echo $! > '{}'; wait", file.display());
        let began = Instant::now();
        let error = run(&command, Duration::from_millis(500)).await.unwrap_err();
        assert!(error.starts_with("the command was killed after 0 s"), "{error}");
        assert!(began.elapsed() < LONG);
        let id: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let is_gone = || {
            let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        while !is_gone() {
            assert!(began.elapsed() < LONG, "process {id} is left");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn output_without_end_takes_no_memory_and_background_work_no_time() {
        run("head -c 50000000 /dev/zero; sleep 1000 >/dev/null 2>&1 & true", LONG).await.unwrap();
        let error = run("yes | head -c 3000000; echo at last; exit 1", LONG).await.unwrap_err();
        assert!(error.ends_with(": at last"), "{error}");
    }

    /// It prints after the command has ended, and again after the follower has.
    #[tokio::test]
    async fn service_that_the_command_started_is_shown_and_outlives_the_follower() {
        let folder = tempfile::tempdir().unwrap();
        let until = "until test -e $n; do sleep .05; done; echo print $n; echo err >&2; echo > done$n";
        let command = format!("(for n in 1 2; do {until}; done) & echo begun");
        let hook = Hook { command, folder: folder.path().to_owned(), time: LONG };
        let (record, (to, mut shown)) = (testkit::goods::record(1, "a", 3, |_| {}), mpsc::channel(1000));
        let (tasks, path) = (Tasks::default(), |name: &str| folder.path().join(name));
        hook.run(&record, Path::new("/x/a"), None, &to, &tasks).await.unwrap();
        std::fs::write(path("1"), "").unwrap();
        let line = |line: &str| Event::Printed { name: record.name.clone(), line: line.to_owned() };
        while shown.recv().await.unwrap() != line("print 1") {}
        tasks.end().await;
        std::fs::write(path("2"), "").unwrap();
        let began = Instant::now();
        while !path("done2").exists() {
            assert!(began.elapsed() < LONG, "the service died");
            tokio::task::yield_now().await;
        }
        assert!(path("done1").exists());
    }
}

//! A node's process as the profiler holds it: told over its stdin, answering over its stdout.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command as Program},
};

use super::{
    node,
    usage::Usage,
    wire::{Answer, Command},
};

/// The hidden command that runs a node.
pub const NODE: &str = "transfer-node";

/// A running node; dropping it ends it, and it ends when this process does.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// What it is called in results.
    pub label: String,
    /// Who it is.
    pub node: String,
    /// Its folder.
    pub dir: PathBuf,
}

impl Process {
    /// Starts a node called `label`; returns when it serves.
    ///
    /// # Errors
    /// It did not start; the error says why.
    pub async fn start(label: String, options: &node::Options) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program to start it again")?;
        let mut command = Program::new(program);
        command.arg(NODE).args(args(options)).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a process")?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("a started process has no input or no output")
        };
        let answers = BufReader::new(stdout).lines();
        let (node, dir) = (String::new(), options.dir.clone());
        let mut process = Self { child, stdin, answers, label, node, dir };
        match process.answer().await.with_context(|| format!("{} did not start", process.label))? {
            Answer::Ready { node, .. } => process.node = node,
            other => bail!("{} says {other:?} when it starts", process.label),
        }
        Ok(process)
    }

    /// Tells it something; [`answer`](Self::answer) then gives what came of it.
    ///
    /// # Errors
    /// It has ended.
    pub async fn tell(&mut self, command: &Command) -> anyhow::Result<()> {
        let line = serde_json::to_string(command)? + "\n";
        self.stdin.write_all(line.as_bytes()).await.with_context(|| format!("{} has ended", self.label))
    }

    /// What it answers to the last command.
    ///
    /// # Errors
    /// It could not do it, or has ended.
    pub async fn answer(&mut self) -> anyhow::Result<Answer> {
        let line = self.answers.next_line().await?;
        let line = line.with_context(|| format!("{} has ended", self.label))?;
        match serde_json::from_str(&line)? {
            Answer::Failed(why) => bail!("{}: {why}", self.label),
            answer => Ok(answer),
        }
    }

    /// Publishes the file or folder at `path`: how many files, in how many seconds.
    ///
    /// # Errors
    /// It could not.
    pub async fn publish(&mut self, path: &Path) -> anyhow::Result<(usize, f64)> {
        self.tell(&Command::Publish { path: path.to_owned() }).await?;
        match self.answer().await? {
            Answer::Published { files, took_s } => Ok((files, took_s)),
            other => bail!("{} says {other:?} after publishing", self.label),
        }
    }

    /// What comes from now on counts.
    ///
    /// # Errors
    /// It has ended.
    pub async fn reset(&mut self) -> anyhow::Result<()> {
        self.tell(&Command::Reset).await?;
        self.answer().await.map(drop)
    }

    /// What it took since then.
    ///
    /// # Errors
    /// It has ended.
    pub async fn usage(&mut self) -> anyhow::Result<Usage> {
        self.tell(&Command::Usage).await?;
        match self.answer().await? {
            Answer::Usage(usage) => Ok(usage),
            other => bail!("{} says {other:?} of what it takes", self.label),
        }
    }

    /// Lets it withdraw what it registered, and waits for its end. Its folder stays.
    ///
    /// # Errors
    /// It has ended before.
    pub async fn end(&mut self) -> anyhow::Result<()> {
        self.tell(&Command::End).await?;
        self.answer().await?;
        self.child.wait().await?;
        Ok(())
    }
}

/// The arguments that make a process these options.
fn args(options: &node::Options) -> Vec<String> {
    let mut args = vec![format!("--dir={}", options.dir.display()), format!("--indexer={}", options.indexer)];
    if options.security == nekoproto::transport::Security::Insecure {
        args.push("--insecure".to_owned());
    }
    for (flag, cap) in [("cap-up", options.cap_up), ("cap-down", options.cap_down)] {
        args.extend(cap.map(|cap| format!("--{flag}={cap}")));
    }
    if let Some(hostile) = &options.hostile {
        args.push(format!("--corrupt={}", hostile.percent));
        args.push(format!("--name={}", hostile.name));
        args.push(format!("--file={}", hostile.file.display()));
        args.push(format!("--seed={}", hostile.seed));
    }
    args
}

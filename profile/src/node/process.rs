//! A process as whoever started it holds it: asked over its stdin, responding over its stdout.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Downloads, Options, Request, Response, Role, usage::Usage};
use crate::report::machine;

/// The hidden command that a process runs.
pub(crate) const NODE: &str = "node";

/// A running process; dropping it ends it, and it ends when this process does.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    responses: Lines<BufReader<ChildStdout>>,
    pub(crate) label: String,
    pub(crate) node: String,
    pub(crate) addr: SocketAddr,
    pub(crate) dir: PathBuf,
}

impl Process {
    /// Starts a process called `label`; returns when it serves. If it does not, the error says why.
    pub(crate) async fn start(label: String, listen: SocketAddr, options: &Options) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program to start it again")?;
        let mut command = Command::new(program);
        command.arg(NODE).arg(format!("--listen={listen}")).arg(serde_json::to_string(options)?);
        command.process_group(0).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a process")?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("a started process has no input or no output")
        };
        let responses = BufReader::new(stdout).lines();
        let dir = match &options.role {
            Role::Peer(peer) | Role::Hostile(peer, _) => peer.dir.clone(),
            Role::Indexer { .. } | Role::RawEcho | Role::Echo => PathBuf::new(),
        };
        let mut process = Self { child, stdin, responses, label, node: String::new(), addr: listen, dir };
        match process.response().await? {
            Response::Ready { node, addr } => (process.node, process.addr) = (node, addr),
            other => return process.unexpected(&other),
        }
        Ok(process)
    }

    /// Asks for something; [`response`](Self::response) then gives what came of it.
    pub(crate) async fn ask(&mut self, request: &Request) -> anyhow::Result<()> {
        let line = serde_json::to_string(request)? + "\n";
        self.stdin.write_all(line.as_bytes()).await.with_context(|| format!("{} has ended", self.label))
    }

    /// What it responds to the last request; an error if it could not do it, or has ended.
    async fn response(&mut self) -> anyhow::Result<Response> {
        let line = self.responses.next_line().await?;
        let line = line.with_context(|| format!("{} has ended", self.label))?;
        match serde_json::from_str(&line)? {
            Response::Failed(why) => bail!("{}: {why}", self.label),
            response => Ok(response),
        }
    }

    fn unexpected<T>(&self, response: &Response) -> anyhow::Result<T> {
        bail!("{} responds {response:?}, which is no answer", self.label)
    }

    /// Publishes the file or folder at `path`: the number of files, and seconds.
    pub(crate) async fn publish(&mut self, path: &Path) -> anyhow::Result<(usize, f64)> {
        self.ask(&Request::Publish(path.to_owned())).await?;
        match self.response().await? {
            Response::Published { files, took_s } => Ok((files, took_s)),
            other => self.unexpected(&other),
        }
    }

    /// What came of the downloads that it was asked for.
    pub(crate) async fn downloaded(&mut self) -> anyhow::Result<Downloads> {
        match self.response().await? {
            Response::Downloaded(downloads) => Ok(downloads),
            other => self.unexpected(&other),
        }
    }

    /// Lets it forget what it took so far.
    pub(crate) async fn reset(&mut self) -> anyhow::Result<()> {
        self.ask(&Request::Reset).await?;
        self.response().await.map(drop)
    }

    /// What it took since then.
    pub(crate) async fn usage(&mut self) -> anyhow::Result<Usage> {
        self.ask(&Request::Usage).await?;
        match self.response().await? {
            Response::Usage(usage) => Ok(usage),
            other => self.unexpected(&other),
        }
    }

    /// Resident memory in bytes, while it runs.
    pub(crate) fn rss_bytes(&self) -> Option<u64> {
        machine::rss_bytes(self.child.id()?)
    }

    /// Lets it withdraw what it registered, and waits for its end. Its folder stays.
    pub(crate) async fn end(&mut self) -> anyhow::Result<()> {
        self.ask(&Request::End).await?;
        self.response().await?;
        self.child.wait().await?;
        Ok(())
    }

    /// Kills it and waits for its end.
    pub(crate) async fn kill(mut self) {
        // Fails if it has ended already, which is as good.
        let _ = self.child.kill().await;
    }
}

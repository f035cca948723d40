//! A process as whoever started it holds it: asked over its stdin, responding over its stdout.

use testkit::network::kept_port_at;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpSocket;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Options, Request, Response, Role, Started};
use crate::prelude::*;

/// The hidden command that a process runs.
const NODE: &str = "node";
/// How long a process may take to say what it knows, and to end: one that hangs is killed.
const RESPONDS_WITHIN: Duration = Duration::from_secs(20);

/// A running process; dropping it ends it, and it ends when this process does.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    stdin: ChildStdin,
    responses: Lines<BufReader<ChildStdout>>,
    pub(crate) label: String,
    pub(crate) node: String,
    pub(crate) addr: SocketAddr,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) dir: PathBuf,
    options: Options,
    host: Option<Namespace>,
    /// Where it listens and answers over HTTP, so that it finds both free again; on another host there is nobody else.
    _kept: Vec<TcpSocket>,
}

impl Process {
    /// Starts a process called `label`, on this machine or on a `host`; returns when it serves. If it does not, the error
    /// says why.
    pub(crate) async fn start(
        label: String,
        mut listen: SocketAddr,
        mut options: Options,
        host: Option<Namespace>,
    ) -> Result<Self> {
        let mut kept = Vec::new();
        if host.is_none() {
            for at in [Some(&mut listen), options.http.as_mut()].into_iter().flatten() {
                let (socket, addr) = kept_port_at(*at).with_context(|| format!("cannot listen on {at}"))?;
                kept.push(socket);
                *at = addr;
            }
        }
        let program = std::env::current_exe().context("cannot find this program to start it again")?;
        let mut command = std::process::Command::new(program);
        command.arg(NODE).arg(format!("--listen={listen}")).arg(serde_json::to_string(&options)?);
        let mut command = Command::from(host.as_ref().map(|host| host.command(&command)).unwrap_or(command));
        if let Some((_, log)) = &options.log {
            command.stderr(File::create(log)?);
        }
        command.process_group(0).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start a process")?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("a started process has no input or no output")
        };
        let responses = BufReader::new(stdout).lines();
        let dir = match &options.role {
            Role::Peer(peer) => peer.dir.clone(),
            _ => PathBuf::new(),
        };
        let node = String::new();
        let (addr, http) = (listen, None);
        let mut process =
            Self { child, stdin, responses, label, node, addr, http, dir, options, host, _kept: kept };
        (process.node, process.addr, process.http) = process.response::<Started>().await?;
        Ok(process)
    }

    /// Starts it again where it was.
    pub(crate) async fn again(&mut self) -> Result<()> {
        let options = Options { http: self.http, ..self.options.clone() };
        *self = Self::start(self.label.clone(), self.addr, options, self.host.clone()).await?;
        Ok(())
    }

    /// Asks for something; [`response`](Self::response) then gives what came of it.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<()> {
        let line = serde_json::to_string(request)? + "\n";
        self.stdin.write_all(line.as_bytes()).await.with_context(|| format!("{} has ended", self.label))
    }

    /// What it responds to the last request; an error if it could not do it, or has ended.
    pub(crate) async fn response<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.responses.next_line().await?;
        let line = line.with_context(|| format!("{} has ended", self.label))?;
        serde_json::from_str::<Response<T>>(&line)?.map_err(|why| anyhow!("{}: {why}", self.label))
    }

    /// Asks for something, and waits for what comes of it, however long that takes.
    pub(crate) async fn call<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        self.ask(request).await?;
        self.response().await
    }

    /// Asks for what it knows without work. If it hangs it is killed, which is the error.
    pub(crate) async fn tells<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        self.tells_within(RESPONDS_WITHIN, request).await
    }

    /// The same, for which it has this long.
    pub(crate) async fn tells_within<T: DeserializeOwned>(
        &mut self,
        limit: Duration,
        request: &Request,
    ) -> Result<T> {
        if let Ok(answer) = timeout(limit, self.call(request)).await {
            return answer;
        }
        self.kill().await;
        bail!("{} did not respond within {} s, and was killed", self.label, limit.as_secs())
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Lets it withdraw what it registered, and waits for its end. Its folder stays.
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.tells::<()>(&Request::End).await?;
        self.child.wait().await?;
        Ok(())
    }

    /// Kills it and waits for its end; who and where it was is still known.
    pub(crate) async fn kill(&mut self) {
        // Fails if it has ended already, which is as good.
        let _ = self.child.kill().await;
    }
}

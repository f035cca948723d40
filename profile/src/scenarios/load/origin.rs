//! The peer that publishes: by its own interface in this process, or as `nekopeer serve --http` by REST.

use std::process::ExitCode;

use clap::Parser;
use nekopeer::{Config, cli};
use nekoproto::transport::NetworkSecret;
use rustix::{process::Signal, process::set_parent_process_death_signal};
use tokio::{fs, io::AsyncBufReadExt, io::BufReader, process::Child, process::Command, sync::Semaphore};

use crate::node::{Private, start_peer};
use crate::outcome::Outcome;
use crate::scenarios::prelude::*;

/// The hidden command that runs `nekopeer`.
const DAEMON: &str = "daemon";
/// The environment variable with the secret of its network.
const SECRET: &str = "PROFILE_NETWORK_SECRET";
/// Calls of `publish` at once: while one waits for the disk the other reads files.
const CALLS_AT_ONCE: usize = 2;
/// Requests to publish at once: fewer than what a peer carries out for HTTP.
const REQUESTS_AT_ONCE: usize = 32;

/// What workers call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    Native,
    Rest,
}

/// The versions of published names, all of them listed by an indexer; why others were not published.
pub(crate) type Published = Result<Arc<HashMap<String, u64>>, Arc<str>>;

/// Files that wait to be published, and who waits for that.
type Waiting = (Vec<PathBuf>, oneshot::Sender<Published>);

pub(crate) struct Origin {
    pub(crate) node: String,
    by: Interface,
}

enum Interface {
    Native {
        peer: PeerHandle,
        waiting: Mutex<Vec<Waiting>>,
        calls: Semaphore,
    },
    /// A process that is `nekopeer`; dropping it kills it.
    Rest {
        daemon: Box<Child>,
        http: Http,
        requests: Semaphore,
    },
}

impl Origin {
    /// Starts it, in the network that is `private`; what it calls others runs on `runtime`.
    pub(crate) async fn start(
        protocol: Protocol,
        config: Config,
        private: Option<&Private>,
        runtime: &Handle,
    ) -> Result<Self> {
        match protocol {
            Protocol::Native => {
                let peer = runtime.spawn(start_peer(config)).await??;
                let (node, waiting, calls) =
                    (peer.node().to_string(), Mutex::default(), Semaphore::new(CALLS_AT_ONCE));
                Ok(Self { node, by: Interface::Native { peer, waiting, calls } })
            }
            Protocol::Rest => {
                let (daemon, at, token) = start_daemon(&config, private).await?;
                let status = Http::new(at, Some(token.clone())).json("/status").await?;
                let node = status["node"].as_str().context("a peer without an id")?.to_owned();
                // The runtime of the workers has connections of its own.
                let (http, requests) = (Http::new(at, Some(token)), Semaphore::new(REQUESTS_AT_ONCE));
                Ok(Self { node, by: Interface::Rest { daemon: Box::new(daemon), http, requests } })
            }
        }
    }

    /// Publishes files: in this process together with all others that wait by then, by REST in a request of their own.
    pub(crate) async fn publish(&self, paths: Vec<PathBuf>) -> Published {
        match &self.by {
            Interface::Native { peer, waiting, calls } => {
                let (tell, mut told) = oneshot::channel();
                locked(waiting).push((paths, tell));
                tokio::select! {
                    biased;
                    published = &mut told => return published.unwrap_or_else(|_| Err("given up".into())),
                    _turn = calls.acquire() => publish_waiting(peer, waiting).await,
                }
                told.await.unwrap_or_else(|_| Err("given up".into()))
            }
            Interface::Rest { http, requests, .. } => {
                let _place = requests.acquire().await;
                let answer = http.post("/api/v1/publish", &json!({ "paths": paths })).await;
                answer.and_then(|answer| versions(&answer)).map_err(|error| format!("{error:#}").into())
            }
        }
    }

    /// Ends it as a crash would: nothing is withdrawn.
    pub(crate) async fn kill(self) -> Result<()> {
        match self.by {
            Interface::Native { peer, .. } => peer.abort().await,
            Interface::Rest { mut daemon, .. } => daemon.kill().await?,
        }
        Ok(())
    }
}

async fn publish_waiting(peer: &PeerHandle, waiting: &Mutex<Vec<Waiting>>) {
    let mut waiting = std::mem::take(&mut *locked(waiting));
    let paths: Vec<PathBuf> = waiting.iter_mut().flat_map(|(paths, _)| std::mem::take(paths)).collect();
    if paths.is_empty() {
        return;
    }
    let published: Published = async {
        let outcome = peer.publish(paths, <_>::default(), &<_>::default()).await?;
        if let Some((path, error)) = outcome.failed.first() {
            return Err(anyhow!("cannot share {}: {error}", path.display()));
        }
        ensure!(outcome.is_confirmed, "no indexer has confirmed what was shared");
        let versions = outcome.published.iter().map(|one| (one.name.to_string(), one.version.get()));
        Ok(Arc::new(versions.collect()))
    }
    .await
    .map_err(|error: anyhow::Error| format!("{error:#}").into());
    for (_, tell) in waiting {
        let _ = tell.send(published.clone()); // a worker that was ended takes none
    }
}

fn versions(answer: &Value) -> Result<Arc<HashMap<String, u64>>> {
    let failed = answer["failed"].as_array().and_then(|failed| failed.first());
    ensure!(failed.is_none(), "cannot share: {}", failed.unwrap_or_default());
    ensure!(answer["confirmed"] == true, "no indexer has confirmed what was shared");
    let published = answer["files"].as_array().context("an answer without versions")?;
    let version = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["version"].as_u64()?));
    Ok(Arc::new(published.iter().filter_map(version).collect()))
}

/// Starts it; returns when its HTTP door is open, with where that is and the token for it.
async fn start_daemon(config: &Config, private: Option<&Private>) -> Result<(Child, SocketAddr, String)> {
    fs::create_dir_all(&config.dir).await?;
    let log = config.dir.with_extension("log");
    let indexers: Vec<String> = config.indexers.iter().map(|at| at.addr.to_string()).collect();
    let listen = config.listen.context("an origin listens")?;
    let mut command = Command::from(nekopeer(listen, &indexers.join(","), &config.dir, config.security)?);
    command.args(["--http", "127.0.0.1:0"]);
    if let Some(Private { name, secret }) = private {
        command.arg(format!("--network={name}")).env(SECRET, secret);
    }
    command.arg("serve").process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(std::fs::File::create(&log)?);
    let mut child = command.spawn().context("cannot start nekopeer")?;
    // It stays open: more may be written to it.
    let stdout = child.stdout.as_mut().context("nekopeer has no output")?;
    let mut line = String::new();
    if BufReader::new(stdout).read_line(&mut line).await? == 0 {
        bail!("nekopeer did not start: {}", fs::read_to_string(&log).await?.trim());
    }
    let line = line.trim_end();
    let addr = line.strip_prefix("http on http://").and_then(|rest| rest.trim_end_matches('/').parse().ok());
    let addr = addr.with_context(|| format!("nekopeer says: {line}"))?;
    let token = fs::read_to_string(config.data_dir().join("http.token")).await?.trim().to_owned();
    Ok((child, addr, token))
}

/// `nekopeer` as a process of this program, without a command yet.
pub(crate) fn nekopeer(
    listen: SocketAddr,
    indexers: &str,
    dir: &Path,
    security: Security,
) -> io::Result<std::process::Command> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args([DAEMON, "--", "--no-discovery"]).arg(format!("--listen={listen}"));
    command.arg(format!("--indexer={indexers}")).arg("--dir").arg(dir);
    if security == Security::Insecure {
        command.arg("--insecure");
    }
    Ok(command)
}

/// A `nekopeer` of a measurement.
#[derive(Args)]
pub(crate) struct Told {
    /// What it is told
    #[arg(last = true)]
    args: Vec<String>,
}

impl Told {
    /// Is `nekopeer`, told so, until its parent is gone.
    pub(crate) fn run(&self) -> Result<Outcome, Fault> {
        set_parent_process_death_signal(Some(Signal::KILL)).or_cannot_begin()?;
        let told = [DAEMON].into_iter().chain(self.args.iter().map(String::as_str));
        let mut args = cli::Args::try_parse_from(told).or_cannot_begin()?;
        if let Ok(secret) = std::env::var(SECRET) {
            args.node.access.loaded.secret = Some(NetworkSecret::new(secret.as_bytes()).or_cannot_begin()?);
        }
        match cli::execute(args) == ExitCode::SUCCESS {
            true => Ok(Outcome::Done),
            false => Err(Fault::Begin(anyhow!("nekopeer has failed"))),
        }
    }
}

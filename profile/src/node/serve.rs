//! What a process does: be an indexer, an echo, a peer or a hostile holder, and respond to requests. When
//! its stdin closes, whoever started it is gone: it removes the folder of the run, if it has one, and ends.

use std::any::Any;
use std::io::BufRead;

use nekoindexer::daemon::{
    logging::{self, LogArgs, LogFormat},
    threads,
};
use nekoindexer::{Indexer, IndexerHandle};
use nekopeer::{Config, OnStale};
use testkit::rogue::{RogueError, corrupt::CorruptHolder};

use super::reader::{self, Follower};
use super::usage::{Meter, Usage, cpu_s, now_s};
use super::{Options, PeerOptions, Request, Response, Role, Started, network, start_peer};
use crate::cluster::deployment::{indexer_config, security};
use crate::outcome::{Begin, Fault, Outcome};
use crate::prelude::*;
use crate::{floor::echo, run::folder};

/// A process of a measurement.
#[derive(Args)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long)]
    listen: SocketAddr,
    /// What to be, in JSON
    options: String,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<Outcome, Fault> {
        let options = serde_json::from_str(&self.options).or_cannot_begin()?;
        run(self.listen, &options)?;
        Ok(Outcome::Done)
    }
}

/// How much a rogue node yields to others: as if it had a machine of its own.
const ROGUE_NICE: i32 = 19;

/// Serves until asked to end, or until stdin closes. An error means that nobody listens to it.
fn run(listen: SocketAddr, options: &Options) -> Result<()> {
    if let Some((level, _)) = &options.log {
        logging::start(&LogArgs { log: Some(level.clone()), log_format: LogFormat::Human });
    }
    let runtime = match options.role {
        Role::Peer(_) | Role::Corrupt(..) | Role::Rogue(_) => {
            Builder::new_multi_thread().enable_all().build()?
        }
        Role::Indexer { .. } | Role::Echo { .. } => threads::runtime(options.threads)?,
    };
    let gone = CancellationToken::new();
    let requests = read_requests(gone.clone())?;
    let served = runtime.block_on(gone.run_until_cancelled(serve(listen, options, requests)));
    // Whatever still reads or writes is of no use any more.
    runtime.shutdown_background();
    let is_told = matches!(served, Some(Ok(true)));
    if let (Role::Peer(peer), false) = (&options.role, is_told) {
        folder::remove_around(&peer.dir);
    }
    // Nobody to say it to is no failure if nobody is there.
    if gone.is_cancelled() { Ok(()) } else { served.transpose().map(drop) }
}

/// The requests, as they come; `gone` when stdin closes.
fn read_requests(gone: CancellationToken) -> io::Result<mpsc::UnboundedReceiver<Request>> {
    let (sender, requests) = mpsc::unbounded_channel();
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(request) = serde_json::from_str(&line) else { break };
            let is_last = request == Request::End;
            let _ = sender.send(request); // if nobody takes it the process is ending
            if is_last {
                return;
            }
        }
        gone.cancel();
    })?;
    Ok(requests)
}

enum Running {
    Indexer(Box<IndexerHandle>),
    Peer(Box<PeerHandle>, Meter, Option<Follower>),
    Rogue(JoinHandle<Result<(), RogueError>>),
    #[expect(dead_code, reason = "it serves for as long as it is held")]
    Other(Box<dyn Any>),
}

/// Whether it was told to end, or has said why it did not start; otherwise nobody is left to tell it.
async fn serve(
    listen: SocketAddr,
    options: &Options,
    mut requests: mpsc::UnboundedReceiver<Request>,
) -> Result<bool> {
    let mut running = match start(listen, options).await {
        Ok((running, started)) => {
            say(Ok(started))?;
            running
        }
        Err(error) => return say::<()>(Err(error)).map(|()| true),
    };
    loop {
        match requests.recv().await {
            None => return Ok(false),
            Some(Request::End) => break,
            Some(Request::Await) => {
                let Running::Peer(peer, ..) = &running else { bail!("only a peer has copies") };
                let news = peer.events();
                say(Ok(()))?;
                say(reader::until_refreshed(news).await)?;
            }
            Some(request) => say(obey(&mut running, request).await)?,
        }
    }
    if let Running::Peer(peer, ..) = running {
        peer.shutdown().await;
    }
    say(Ok(())).map(|()| true)
}

/// Starts it; who it is, and where it listens.
async fn start(listen: SocketAddr, options: &Options) -> Result<(Running, Started)> {
    let security = security(options.insecure);
    let (network, access) = network(options.network.as_ref())?;
    match &options.role {
        Role::Indexer { .. } => {
            let indexer = Indexer::spawn(indexer_config(listen, options)?).await?;
            let started = (String::new(), indexer.local_addr(), indexer.http_addr());
            Ok((Running::Indexer(Box::new(indexer)), started))
        }
        Role::Echo { raw } => {
            let server = echo::Server::start((!raw).then_some(security)).await?;
            let started = (String::new(), server.addr, None);
            Ok((Running::Other(Box::new(server)), started))
        }
        Role::Corrupt(indexer, corruption) => {
            let corrupt = CorruptHolder::start(*indexer, options.insecure, corruption).await?;
            let Holder { node, addr, .. } = corrupt.holder;
            Ok((Running::Other(Box::new(corrupt)), (node.to_string(), addr, None)))
        }
        Role::Rogue(order) => {
            let _ = rustix::process::nice(ROGUE_NICE); // refused, the figures are worse
            let attack = tokio::spawn(order.clone().carry_out());
            Ok((Running::Rogue(attack), (String::new(), listen, None)))
        }
        Role::Peer(PeerOptions { dir, indexers, cap_up, cap_down, refetches }) => {
            let meter = Meter::start()?;
            fs::create_dir_all(dir).context("cannot make the folder of a node")?;
            let config = Config {
                indexers: indexers.iter().copied().map(Into::into).collect(),
                listen: Some(listen),
                network,
                security,
                access,
                limit_up: *cap_up,
                limit_down: *cap_down,
                on_stale: if *refetches { OnStale::Refetch } else { OnStale::Keep },
                ..Config::new(dir)
            };
            let peer = start_peer(config).await?;
            let addr = peer.local_addr().context("a peer does not listen")?;
            let node = peer.node().to_string();
            Ok((Running::Peer(Box::new(peer), meter, None), (node, addr, None)))
        }
    }
}

async fn obey(running: &mut Running, request: Request) -> Result<Value> {
    let (peer, meter, follower) = match running {
        Running::Peer(peer, meter, follower) => (peer, meter, follower),
        Running::Indexer(indexer) if request == Request::Probes => {
            let tasks = Handle::current().metrics().num_alive_tasks();
            return Ok(json!((indexer.probes(), tasks)));
        }
        Running::Rogue(attack) if attack.is_finished() => bail!("gave up: {:?}", attack.await?),
        Running::Rogue(_) => return Ok(json!(Usage { cpu_s: cpu_s(), ..Usage::default() })),
        Running::Indexer(_) | Running::Other(_) => {
            bail!("a node that only serves is asked for {request:?}")
        }
    };
    Ok(match request {
        Request::Reset => {
            meter.reset();
            Value::Null
        }
        Request::Usage => json!(meter.usage()),
        Request::Publish(path) => json!(publish(peer, path).await?),
        Request::Download { names, at_s } => json!(reader::fetch(peer, names, at_s).await?),
        Request::Follow { pause_ms } => {
            *follower = Some(Follower::start(peer.events(), Duration::from_millis(pause_ms)));
            Value::Null
        }
        Request::Arrived => json!(follower.as_ref().map(Follower::take).unwrap_or_default()),
        Request::Held(names) => json!(reader::held(peer, &names).await?),
        Request::Probes | Request::Await | Request::End => bail!("it is no request like others"),
    })
}

/// Publishes a file or a folder: the number of files, and seconds.
async fn publish(peer: &PeerHandle, path: PathBuf) -> Result<(usize, f64)> {
    let began_s = now_s();
    let outcome = peer.publish(vec![path], <_>::default(), &<_>::default()).await?;
    let took_s = now_s() - began_s;
    if let Some((path, error)) = outcome.failed.first() {
        bail!("cannot share {}: {error}", path.display());
    }
    if outcome.indexers_told == 0 {
        bail!("no indexer knows what was shared");
    }
    Ok((outcome.published.len(), took_s))
}

/// Says what came of a request to whoever started this process.
fn say<T: Serialize>(done: Result<T>) -> Result<()> {
    let response: Response<T> = done.map_err(|error| format!("{error:#}"));
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(&response)?).context("cannot write to stdout")?;
    stdout.flush().context("cannot write to stdout")
}

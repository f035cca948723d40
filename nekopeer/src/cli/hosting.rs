//! A peer that runs in this process, and takes commands from others.

use std::{
    io::{IsTerminal, stdout},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nekoindexer::daemon::http::{Guard, HttpDoor, Token};
use nekoproto::Remedy;
use rustix::system::uname;
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::{
    args::NodeArgs,
    bar::beside,
    events::{self, EventSource, Showing},
    indexers::{Indexers, listen_as},
};
use crate::{
    api::{Ending, Failure, Host},
    config::Config,
    door::{Caller, Door, Facts},
    http,
    indexers::Dialed,
    library::events::Event,
    peer::{Peer, Prepared},
    terminal::Output,
};

/// A peer in this process. Dropping it stops it at once.
pub(super) struct Hosted {
    pub(super) host: Arc<Host>,
    pub(super) facts: Facts,
    /// Starts with the first event of the peer.
    events: Option<broadcast::Receiver<Event>>,
    door: Option<Door>,
    http: Option<HttpDoor>,
    showing: Option<Showing>,
    /// The command of this process may still publish what changed on disk.
    is_publishing: Arc<AtomicBool>,
    /// Another process uses its key.
    refusal: Arc<OnceLock<String>>,
    _ends_refused: AbortOnDropHandle<()>,
    pub(super) indexers: Indexers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serves {
    Nothing,
    /// What it downloads, see [`Config::serves_downloads_only`].
    Downloads,
    All,
}

fn config(args: &NodeArgs, indexers: &Indexers, serves: Serves) -> Config {
    // The host that was given and found at an address, if one was.
    let host = |addr: &SocketAddr| args.indexer.iter().find(|at| at.addr == *addr).cloned();
    Config {
        listen: (serves != Serves::Nothing)
            .then(|| args.listen.unwrap_or_else(|| listen_as(indexers.is_open))),
        serves_downloads_only: serves == Serves::Downloads,
        indexers: indexers.addrs.iter().map(|addr| host(addr).unwrap_or_else(|| (*addr).into())).collect(),
        discovers: !args.no_discovery,
        keys: indexers.keys.clone(),
        data_dir: args.data_dir.clone(),
        secret_files: args.access.files().cloned().collect(),
        label: args
            .label
            .clone()
            .or_else(|| uname().nodename().to_string_lossy().into_owned().try_into().ok()),
        network: args.network.clone().unwrap_or_default(),
        security: args.security(),
        access: args.access.loaded.clone(),
        ttr: args.policy.ttr.map(|secs| Duration::from_secs(secs.into())),
        limit_up: args.limit_up,
        limit_down: args.limit_down,
        keep_base: args.keep_base,
        memory: args.memory(),
        on_stale: args.on_stale.unwrap_or_default(),
        ..Config::new(&args.dir)
    }
}

impl Hosted {
    /// Opens the folders of a peer; with `repairs`, its catalogue is about to be brought back.
    pub(super) async fn prepare(args: &NodeArgs, repairs: bool) -> Result<Prepared, Failure> {
        Peer::prepare(&Config { repairs, ..config(args, &Indexers::default(), Serves::Nothing) }).await
    }

    /// Opens its door too. If that fails, an indexer that was started for it is shut down.
    pub(super) async fn start(
        args: &NodeArgs,
        prepared: Prepared,
        mut indexers: Indexers,
        serves: Serves,
        output: Output,
    ) -> Result<Self, Failure> {
        let (config, serving) = (config(args, &indexers, serves), serves == Serves::All);
        // Where a peer serves is told when a connection is opened.
        let dialed = if serving { Dialed::new() } else { std::mem::take(&mut indexers.dialed) };
        indexers.dialed.clear();
        let started = async {
            let host = Host::new(Peer::start(prepared, config.clone(), dialed).await?);
            let http =
                args.http.filter(|_| serving).map(|addr| open_http(addr, args, &config, &host)).transpose();
            if http.is_err() {
                host.peer.end().await;
            }
            Ok((host, http?))
        };
        let (host, http) = match started.await {
            Ok(started) => started,
            Err(error) => {
                indexers.shutdown().await;
                return Err(error);
            }
        };
        let events = host.peer.events();
        let (http, token) = http.unzip();
        let http_addr = http.as_ref().map(HttpDoor::local_addr);
        if let (Some(addr), Some(token)) = (http_addr, token) {
            say_http(addr, &token, output);
        }
        let facts = Facts {
            discover: Some(args.discover),
            allow: allowed(args).map(Into::into),
            http_hosts: args.http_hosts.clone(),
            ..Facts::of(&host.peer, &config, http_addr)
        };
        let door = Door::open(&config.data_dir(), &host, facts.clone());
        let door = door.inspect_err(|error| {
            let folder = config.data_dir();
            output.note(&format!(
                "note: other commands on {} have to wait for this one, which cannot listen to them: {error}",
                folder.display()
            ));
        });
        let (refusal, ending) = (Arc::default(), Arc::clone(&host));
        let refused = Arc::clone(&refusal);
        let _ends_refused = AbortOnDropHandle::new(tokio::spawn(async move {
            let why = ending.peer.indexers.refused().await;
            let _: &String = OnceLock::get_or_init(&refused, || why);
            ending.stop.cancel();
        }));
        let (events, is_publishing, showing, door) = (Some(events), Arc::default(), None, door.ok());
        Ok(Self { host, facts, events, door, http, showing, is_publishing, refusal, _ends_refused, indexers })
    }

    pub(super) fn events(&mut self) -> broadcast::Receiver<Event> {
        self.events.take().unwrap_or_else(|| self.host.peer.events())
    }

    /// Prints events until the peer ends; if the command of this process publishes, none of changed files before
    /// [`note_changed`](Self::note_changed).
    pub(super) fn show_events(&mut self, is_publishing: bool, output: Output) {
        self.is_publishing.store(is_publishing, Ordering::Relaxed);
        let (events, is_publishing) = (self.events(), Arc::clone(&self.is_publishing));
        let is_shown = move |event: &Event| {
            !(is_publishing.load(Ordering::Relaxed) && matches!(event, Event::Changed(_)))
        };
        self.showing = Some(events::show(EventSource::Here(events), is_shown, move |text, is_failure| {
            beside(|| output.told(&text, is_failure));
            true
        }));
    }

    /// Prints which files changed on disk and were not published by the command of this process, which has ended.
    pub(super) fn note_changed(&self, output: Output) {
        self.is_publishing.store(false, Ordering::Relaxed);
        for name in self.host.peer.library.changed.told() {
            output.note(&Event::Changed(name).to_string());
        }
    }

    pub(super) fn caller(&self) -> Caller {
        Caller::here(&self.host, self.facts.clone())
    }

    /// The peer ends when this is complete.
    pub(super) async fn stopped(&self) {
        self.host.stop.cancelled().await;
    }

    /// Why it ends although nobody asked it to.
    pub(super) fn refusal(&self) -> Option<anyhow::Error> {
        self.refusal.get().map(|why| Failure::conflict(why).into())
    }

    /// Withdraws everything, and waits until all has ended. If `is_patient`, commands of others have a moment
    /// to end by themselves.
    pub(super) async fn end(self, is_patient: bool) {
        let ending = match (self.host.stop.is_cancelled(), is_patient) {
            (true, _) => Ending::Stopped,
            (false, true) => Ending::Done,
            (false, false) => Ending::Left,
        };
        let Self { host, door, http, showing, indexers, .. } = self;
        drop(showing);
        match door {
            Some(door) => door.close(ending).await,
            None => host.close(ending).await,
        }
        if let Some(http) = http {
            http.shutdown().await;
        }
        host.ended().await;
        host.jobs.close().await;
        host.peer.end().await;
        drop(host);
        indexers.shutdown().await;
    }
}

/// The list of allowed nodes, wherever the command is given.
pub(super) fn allowed(args: &NodeArgs) -> Option<PathBuf> {
    args.access.allow.as_ref().map(|list| list.canonicalize().unwrap_or_else(|_| list.clone()))
}

fn open_http(
    addr: SocketAddr,
    args: &NodeArgs,
    config: &Config,
    host: &Arc<Host>,
) -> Result<(HttpDoor, Arc<Token>), Failure> {
    let token = Token::load_or_create(&config.data_dir().join("http.token")).map_err(Failure::general)?;
    let token = Arc::new(token);
    let guard = Guard { hosts: args.http_hosts.clone(), token: Some(Arc::clone(&token)) };
    let failed = |error| Failure::conflict(format!("cannot listen on {addr} for HTTP: {error}"));
    http::open(addr, host, guard, config.access.secret.is_some())
        .map(|http| (http, token))
        .map_err(|error| failed(error).remedied(Remedy::Http))
}

/// Says where the door is. Who started the program waits for this line. Whoever sits at a terminal gets a link with the token,
/// which no log and no pipe does.
fn say_http(addr: SocketAddr, token: &Token, output: Output) {
    let line = format!("http on http://{addr}/");
    if output.is_json() {
        output.note(&line); // stdout has one object
    } else if output.line(&line).is_err() {
        output.note(&line); // nobody reads stdout
    } else if stdout().is_terminal() {
        let here = match addr {
            SocketAddr::V4(at) if at.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, at.port()).into(),
            SocketAddr::V6(at) if at.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, at.port()).into(),
            addr => addr,
        };
        let token = token.reveal();
        drop(
            output.line(&format!(
                "the page, with the token that may change things: http://{here}/#token={token}"
            )),
        );
    }
}

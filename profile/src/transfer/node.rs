//! A node as a process of its own: a peer, or a hostile holder, told over stdin what to do. When stdin
//! closes, whoever started it is gone: it removes the folder of the run and ends.

use std::{
    fs,
    io::{BufRead, Write},
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroU64,
    path::PathBuf,
    thread,
};

use anyhow::{Context, bail};
use nekopeer::{Config, Peer, PeerHandle};
use nekoproto::transport::Security;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    folder,
    hostile::{self, Hostile},
    reader,
    usage::{Meter, now_s},
    wire::{Answer, Command},
};

/// What a node is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its folder, in the folder of the run.
    pub dir: PathBuf,
    /// Its indexer.
    pub indexer: SocketAddr,
    /// TLS, or plain TCP.
    pub security: Security,
    /// File bytes a second that it sends at most.
    pub cap_up: Option<NonZeroU64>,
    /// File bytes a second that it fetches at most.
    pub cap_down: Option<NonZeroU64>,
    /// It is a hostile holder.
    pub hostile: Option<hostile::Options>,
}

/// Who does what the commands say.
enum Role {
    Peer(PeerHandle),
    /// It serves for as long as it is held.
    Hostile {
        _running: Hostile,
    },
}

/// Serves until told to end, or until stdin closes.
///
/// # Errors
/// It cannot say what came of a command: nobody listens.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let gone = CancellationToken::new();
    let commands = listen(gone.clone())?;
    let ended = runtime.block_on(gone.run_until_cancelled(serve(options, commands)));
    // Whatever still reads or writes is of no use any more.
    runtime.shutdown_background();
    match ended {
        Some(Ok(End::Told)) => Ok(()),
        Some(Ok(End::Gone)) | None => {
            folder::remove_around(&options.dir);
            Ok(())
        }
        Some(Err(error)) => {
            folder::remove_around(&options.dir);
            // Nobody to say it to is no failure if nobody is there.
            if gone.is_cancelled() { Ok(()) } else { Err(error) }
        }
    }
}

/// Why a node ends.
enum End {
    /// It was told to, or could not start and said so.
    Told,
    /// Whoever would tell it something is gone.
    Gone,
}

/// The commands, as they come; `gone` when stdin closes.
fn listen(gone: CancellationToken) -> std::io::Result<mpsc::UnboundedReceiver<Command>> {
    let (sender, commands) = mpsc::unbounded_channel();
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(command) = serde_json::from_str(&line) else { break };
            let is_last = command == Command::End;
            // Nobody takes it: the process is ending.
            let _ = sender.send(command);
            if is_last {
                return;
            }
        }
        gone.cancel();
    })?;
    Ok(commands)
}

async fn serve(options: &Options, mut commands: mpsc::UnboundedReceiver<Command>) -> anyhow::Result<End> {
    let mut meter = Meter::start()?;
    let role = match start(options).await {
        Ok((role, ready)) => {
            say(&ready)?;
            role
        }
        Err(error) => return say(&Answer::Failed(format!("{error:#}"))).map(|()| End::Told),
    };
    loop {
        match commands.recv().await {
            None => return Ok(End::Gone),
            Some(Command::End) => break,
            Some(command) => {
                let done = obey(&role, &mut meter, command).await;
                say(&done.unwrap_or_else(|error| Answer::Failed(format!("{error:#}"))))?;
            }
        }
    }
    if let Role::Peer(peer) = role {
        peer.shutdown().await;
    }
    say(&Answer::Done).map(|()| End::Told)
}

async fn start(options: &Options) -> anyhow::Result<(Role, Answer)> {
    fs::create_dir_all(&options.dir).context("cannot make the folder of a node")?;
    if let Some(hostile) = &options.hostile {
        let hostile = Hostile::start(hostile, options).await?;
        let ready = Answer::Ready { node: hostile.node().to_string(), addr: hostile.addr() };
        return Ok((Role::Hostile { _running: hostile }, ready));
    }
    let config = Config {
        indexers: vec![options.indexer],
        listen: Some((Ipv4Addr::LOCALHOST, 0).into()),
        security: options.security,
        limit_up: options.cap_up,
        limit_down: options.cap_down,
        ..Config::new(&options.dir)
    };
    let peer = Peer::spawn(config).await?;
    peer.indexers_tried().await;
    let addr = peer.local_addr().context("a peer does not listen")?;
    let ready = Answer::Ready { node: peer.node().to_string(), addr };
    Ok((Role::Peer(peer), ready))
}

async fn obey(role: &Role, meter: &mut Meter, command: Command) -> anyhow::Result<Answer> {
    match (command, role) {
        (Command::Reset, _) => {
            meter.reset();
            Ok(Answer::Done)
        }
        (Command::Usage, _) => Ok(Answer::Usage(meter.usage())),
        (Command::Publish { path }, Role::Peer(peer)) => publish(peer, path).await,
        (Command::Download { names, at_s }, Role::Peer(peer)) => {
            Ok(Answer::Downloaded(reader::fetch(peer, names, at_s).await?))
        }
        (command, _) => bail!("a node that cannot do it is told {command:?}"),
    }
}

async fn publish(peer: &PeerHandle, path: PathBuf) -> anyhow::Result<Answer> {
    let began_s = now_s();
    let outcome = peer.publish(vec![path], <_>::default(), &<_>::default()).await?;
    let took_s = now_s() - began_s;
    if let Some((path, error)) = outcome.failed.first() {
        bail!("cannot publish {}: {error}", path.display());
    }
    if outcome.indexers_told == 0 {
        bail!("no indexer knows what was published");
    }
    Ok(Answer::Published { files: outcome.published.len(), took_s })
}

/// Says `answer` to whoever started this process.
fn say(answer: &Answer) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(answer)?).context("cannot write to stdout")?;
    stdout.flush().context("cannot write to stdout")
}

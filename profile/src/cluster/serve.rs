//! What a process of a cluster does: be an indexer or an echo until its stdin closes.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    thread,
};

use anyhow::Context;
use nekoindexer::{Indexer, Routing};
use nekoproto::transport::Security;
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    cluster::node::{Kind, LISTENING_ON, indexer_config},
    floor::echo,
};

/// Serves until stdin closes.
///
/// # Errors
/// It cannot listen.
pub fn serve(
    kind: Kind,
    listen: SocketAddr,
    neighbors: Vec<SocketAddr>,
    security: Security,
    routing: Routing,
    threads: NonZeroUsize,
) -> anyhow::Result<()> {
    let runtime = nekoindexer::threads::runtime(threads)?;
    let parent_gone = stdin_closed()?;
    runtime.block_on(async move {
        match kind {
            Kind::Indexer => {
                let indexer = Indexer::spawn(indexer_config(listen, neighbors, security, routing)).await?;
                say(indexer.local_addr())?;
                // Closed or failed: there is no parent to serve any more.
                let _ = parent_gone.await;
                indexer.shutdown().await;
            }
            Kind::RawEcho => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                say(listener.local_addr()?)?;
                tokio::spawn(echo::serve_raw(listener));
                let _ = parent_gone.await; // as above
            }
            Kind::Echo => {
                let server = echo::Server::start(security)?;
                say(server.addr())?;
                let _ = parent_gone.await; // as above
            }
        }
        Ok(())
    })
}

fn say(addr: SocketAddr) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{LISTENING_ON}{addr}").context("cannot write to stdout")
}

/// Resolves when stdin closes: then whoever started this process is gone.
fn stdin_closed() -> std::io::Result<oneshot::Receiver<()>> {
    let (closed, wait) = oneshot::channel();
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        // An error is an end, too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = closed.send(()); // nobody waits: the process is ending
    })?;
    Ok(wait)
}

//! Connects to nodes that cannot connect to this peer, as its indexers ask it to, and serves them.

use std::{net::SocketAddr, sync::Arc};

use futures::future::BoxFuture;
use nekoproto::{
    Refusal,
    limits::HANDSHAKE_TIMEOUT,
    transport::{Endpoint, rendezvous::Token},
};
use tokio::time::timeout;
use tracing::debug;

use super::Uploads;

/// Such connections at once; further ones are refused as `Busy`.
pub(super) const DIALED_BACK_MAX: usize = 64;

impl Uploads {
    /// Connects `to` where somebody waits for the connection with `token`, and serves it in the background.
    pub(super) fn dial_back(
        self: Arc<Self>,
        endpoint: Arc<Endpoint>,
        to: SocketAddr,
        token: Token,
    ) -> BoxFuture<'static, Result<(), Refusal>> {
        // In a box: what is served there may ask for this again.
        Box::pin(self.dial_and_serve(endpoint, to, token))
    }

    async fn dial_and_serve(
        self: Arc<Self>,
        endpoint: Arc<Endpoint>,
        to: SocketAddr,
        token: Token,
    ) -> Result<(), Refusal> {
        let place = Arc::clone(&self.dialed_back).try_acquire_owned().map_err(|_| Refusal::Busy)?;
        let stream = endpoint.dial_back(to, token).await.map_err(|error| {
            debug!(%to, %error, "a reader cannot be connected to");
            Refusal::NotCalled
        })?;
        self.library.tasks.clone().spawn_until_stop(async move {
            match timeout(HANDSHAKE_TIMEOUT, endpoint.welcome(stream)).await {
                Ok(Ok(connection)) => self.serve(connection).await,
                failed => debug!(%to, ?failed, "a reader that was connected to did not go on"),
            }
            drop(place);
        });
        Ok(())
    }
}

//! The HTTP door of an attacked node, as its operator needs it.

use std::{net::SocketAddr, time::Duration};

use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::node::http::Http;

/// How often it is asked for, each time over a connection of its own.
const ASKED_EVERY: Duration = Duration::from_millis(100);
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Asks for `/healthz` until it is ended.
pub(super) struct Door {
    stop: CancellationToken,
    asking: JoinHandle<Vec<Option<Duration>>>,
}

impl Door {
    pub(super) fn begin(addr: SocketAddr) -> Self {
        let stop = CancellationToken::new();
        let (stopped, mut ticks) = (stop.clone(), interval(ASKED_EVERY));
        let asking = tokio::spawn(async move {
            let mut took = Vec::new();
            while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
                let (door, began) = (Http::new(addr, None), Instant::now());
                let answer = timeout(ANSWERS_WITHIN, door.text("/healthz")).await;
                took.push(answer.is_ok_and(|answer| answer.is_ok()).then(|| began.elapsed()));
            }
            took
        });
        Self { stop, asking }
    }

    /// How often it was asked, how often there was no answer in time, and the longest that one took.
    pub(super) async fn end(self) -> anyhow::Result<(usize, usize, Duration)> {
        self.stop.cancel();
        let took = self.asking.await?;
        let longest = took.iter().flatten().max().copied().unwrap_or_default();
        Ok((took.len(), took.iter().filter(|took| took.is_none()).count(), longest))
    }
}

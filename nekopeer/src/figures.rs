//! [`Figures`]: what a running peer tells of itself and no other room knows.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nekoindexer::daemon::http::exposition::Process;
use nekoproto::{budget::Budget, transport::ConnectionLimiter};
use tokio::sync::Mutex;

use crate::{
    library::{Library, census::Census},
    serve::{SlotCounts, Uploads},
};

/// How long a census counts at least.
const CENSUS_FOR: Duration = Duration::from_secs(5);
/// The share of the time that may go into taking them: where one takes a second, it counts for twenty.
const CENSUS_SHARE: u32 = 20;

#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) began: Instant,
    /// The bytes that are kept for other nodes.
    pub(crate) budget: Arc<Budget>,
    pub(crate) process: Process,
    library: Arc<Library>,
    serving: Option<(Arc<Uploads>, Arc<ConnectionLimiter>)>,
    /// What was counted last, and until when it counts.
    census: Mutex<Option<(Census, Instant)>>,
}

impl Figures {
    /// Of a peer that begins now. `serving`: its uploads, and the connections that it accepts.
    pub(crate) fn new(
        budget: &Arc<Budget>,
        library: &Arc<Library>,
        serving: Option<(Arc<Uploads>, Arc<ConnectionLimiter>)>,
    ) -> Arc<Self> {
        let (budget, library) = (Arc::clone(budget), Arc::clone(library));
        let (began, process, census) = (Instant::now(), Process::starts_now(), Mutex::default());
        Arc::new(Self { began, budget, process, library, serving, census })
    }

    /// Its files: a count that is some seconds old, or one that is taken now. Whoever comes meanwhile waits for it, as
    /// it is taken once for all. What fails is logged, and counted next time.
    pub(crate) async fn census(&self) -> Census {
        let mut taken = self.census.lock().await;
        match &*taken {
            Some((census, until)) if Instant::now() < *until => census.clone(),
            _ => {
                let began = Instant::now();
                let census = self.library.blocking(|library| library.census()).await;
                let census = census.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the files are not counted");
                    Census::default()
                });
                let until = Instant::now() + CENSUS_FOR.max(began.elapsed() * CENSUS_SHARE);
                taken.insert((census, until)).0.clone()
            }
        }
    }

    /// Its upload slots; without any where it does not serve.
    pub(crate) fn slots(&self) -> SlotCounts {
        self.serving.as_ref().map_or_else(SlotCounts::default, |(uploads, _)| uploads.slots())
    }

    /// The connections that it accepts, if it serves.
    pub(crate) fn arrivals(&self) -> Option<&ConnectionLimiter> {
        self.serving.as_ref().map(|(_, arrivals)| &**arrivals)
    }
}

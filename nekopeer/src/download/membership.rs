//! [`Membership`]: has a `get` without a running peer listen, register the large files that it downloads, and upload their
//! chunks to other readers, until these have ended or its time is over.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nekoproto::{Record, transport::Endpoint};
use tokio::time::sleep;
use tracing::warn;

use crate::{indexers::Indexers, library::Library, serve::Uploads};

/// Interval between looks at who downloads from here.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Membership {
    listen: SocketAddr,
    endpoint: Arc<Endpoint>,
    library: Arc<Library>,
    indexers: Arc<Indexers>,
    uploads: Arc<Uploads>,
    has_begun: AtomicBool,
}

impl Membership {
    pub(crate) fn new(
        listen: SocketAddr,
        endpoint: &Arc<Endpoint>,
        library: &Arc<Library>,
        indexers: &Arc<Indexers>,
        uploads: &Arc<Uploads>,
    ) -> Arc<Self> {
        let (endpoint, library) = (Arc::clone(endpoint), Arc::clone(library));
        let (indexers, uploads) = (Arc::clone(indexers), Arc::clone(uploads));
        Arc::new(Self { listen, endpoint, library, indexers, uploads, has_begun: AtomicBool::default() })
    }

    /// Serves what comes of `record`: listens, and tells the indexers so in the background. Where that fails, what is downloaded
    /// is served to nobody.
    pub(super) fn begin(&self, record: &Record) {
        self.uploads.admit(record);
        if self.has_begun.swap(true, Ordering::AcqRel) {
            return;
        }
        match self.endpoint.bind(self.listen) {
            Ok(listener) => {
                self.uploads.accept(listener, &self.library.tasks.stop);
                self.library.is_member.store(true, Ordering::Release);
                self.indexers.connect_again();
            }
            Err(error) => warn!(listen = %self.listen, %error, "what is downloaded is served to nobody"),
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.uploads.readers() > 0
    }

    /// Serves on as long as others download from here, at most until then.
    pub(crate) async fn seed(&self, until: Instant) {
        while self.is_asked() && Instant::now() < until {
            sleep(LOOK_EVERY).await;
        }
    }
}

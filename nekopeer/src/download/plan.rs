//! [`Plan`]: which version is downloaded, from whom, how it is put together, and where it lands. Whoever asks for a
//! download makes one; [`Downloader::carry_out`] does the rest.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use nekoproto::{FileName, Holder, Manifest, NodeId};
use tokio_util::sync::CancellationToken;

use super::{
    DownloadOptions, Downloader,
    swarm::{Begin, LOOK_AFTER, source::Source},
};
use crate::{
    content::{outboard::Segments, stamp::Stamp},
    failure::Failure,
    state::choice::Target,
    storage::catalogue::PassedOver,
    util::progress::Progress,
};

pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(super) layout: Option<Layout>,
    pub(super) landing: Landing,
    /// When further sources are looked for first.
    pub(super) look_after: Duration,
    pub(super) ready: Option<(NodeId, Source)>,
}

/// How a version is put together, and the sources to start with.
pub(crate) struct Layout {
    pub(super) manifest: Arc<Manifest>,
    pub(super) encoded: Arc<[u8]>,
    /// The outboard, if a holder has it. Bytes are verified by its segments, and the whole file with them.
    pub(super) outboard: Option<Arc<Segments>>,
    pub(super) begin: Begin,
}

impl Layout {
    /// The same, to start with this connection too, if there is one.
    pub(super) fn with(mut self, source: Option<(Holder, Source)>) -> Self {
        self.begin.extend(source.map(|(holder, source)| (holder, Some(source))));
        self
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Landing {
    /// Its path, or the folder for it; `None`: under its name in the share folder.
    pub(super) output: Option<PathBuf>,
    pub(super) replaceable: Option<Stamp>,
    pub(super) passed_over: Option<PassedOver>,
}

#[derive(Clone, Copy)]
pub(super) struct DownloadRun<'a> {
    pub(super) options: &'a DownloadOptions,
    pub(super) progress: &'a Arc<Progress>,
    pub(super) stop: &'a CancellationToken,
    pub(super) began: Instant,
}

impl Plan {
    /// Whether the file is executable where it is published, if that is known already.
    pub(crate) fn is_executable(&self) -> Option<bool> {
        self.layout.as_ref().map(|layout| layout.manifest.is_executable())
    }

    pub(crate) fn new(target: Target, output: Option<PathBuf>) -> Self {
        let landing = Landing { output, ..Landing::default() };
        Self { target, layout: None, landing, look_after: LOOK_AFTER, ready: None }
    }
}

/// The `sources` to start with, and the connection to one of them that is `ready`.
pub(super) fn begin_with(sources: &[Holder], mut ready: Option<(NodeId, Source)>) -> Begin {
    let mut of = |holder: &Holder| ready.take_if(|(node, _)| *node == holder.node).map(|(_, source)| source);
    sources.iter().map(|holder| (*holder, of(holder))).collect()
}

impl Downloader {
    pub(super) async fn plan(&self, name: &FileName, options: &DownloadOptions) -> Result<Plan, Failure> {
        match options.version {
            None => Ok(Plan::new(self.find(name, options).await?, options.output.clone())),
            Some(version) => self.find_version(name, version, options).await,
        }
    }
}

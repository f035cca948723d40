//! The asking end of the data stream: manifests and verified chunks from one source.

use std::{ops::Range, sync::Arc, time::Duration};

use nekoproto::{
    ByteRange, DataReply, DataRequest, FetchRefusal, Grant, Holder, List, Manifest, ManifestError, Purpose,
    Record,
    limits::{MANIFEST_BYTES_MAX, STALL_TIMEOUT},
    transport::{ConnectError, DataError, DataStream, Endpoint},
};

use tokio::time::timeout;

use crate::chunker::hash;

/// Time for one chunk. A source that is slower (2 KiB/s for the usual chunk) is not worth waiting for.
const CHUNK_WITHIN: Duration = Duration::from_secs(60);

/// Why a source did not deliver.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It cannot be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The stream broke, ended early or stalled.
    #[error(transparent)]
    Stream(#[from] DataError),
    /// It refuses.
    #[error(transparent)]
    Refused(#[from] FetchRefusal),
    /// A chunk has other bytes than the manifest says.
    #[error("it sent a corrupt chunk")]
    Corrupt,
    /// It wants to send another number of bytes than was asked for.
    #[error("it offered {offered} bytes where {asked} were asked for")]
    WrongLength {
        /// What it offered.
        offered: u64,
        /// What was asked for.
        asked: u64,
    },
    /// Its manifest is not the one that the record names.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl FetchError {
    /// Whether this proves that the source lies; it is asked no more then.
    #[must_use]
    pub const fn is_lie(&self) -> bool {
        matches!(self, Self::Corrupt | Self::WrongLength { .. } | Self::Manifest(_))
    }

    /// Whether asking again is pointless for this download.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Refused(refusal) => !matches!(refusal, FetchRefusal::Busy),
            Self::Connect(error) => !matches!(
                error,
                ConnectError::Unreachable { .. } | ConnectError::Timeout(_) | ConnectError::Handshake(_)
            ),
            _ => self.is_lie(),
        }
    }
}

/// A data stream to one holder.
#[derive(Debug)]
pub(crate) struct Source {
    stream: DataStream,
}

impl Source {
    /// Connects to `holder`, and makes sure that it is the node it should be.
    pub(crate) async fn connect(endpoint: &Arc<Endpoint>, holder: &Holder) -> Result<Self, FetchError> {
        let connection = endpoint.dial(holder.addr, Purpose::Data, Some(holder.node)).await?;
        Ok(Self { stream: DataStream::new(connection.io) })
    }

    /// The manifest of `record`, checked, and its encoded form.
    pub(crate) async fn manifest(&mut self, record: &Record) -> Result<(Manifest, Vec<u8>), FetchError> {
        let grant = self.ask(&DataRequest::Manifest(record.manifest)).await?;
        let len = usize::try_from(grant.len).ok().filter(|_| grant.len <= MANIFEST_BYTES_MAX);
        let wrong = FetchError::WrongLength { offered: grant.len, asked: MANIFEST_BYTES_MAX };
        let mut bytes = vec![0; len.ok_or(wrong)?];
        self.stream.receive_bytes(&mut bytes).await?;
        let manifest = Manifest::decode_for(record, &bytes)?;
        Ok((manifest, bytes))
    }

    /// Asks for the chunks `run` of `manifest`; [`chunk`](Self::chunk) then takes each in order.
    pub(crate) async fn begin(
        &mut self,
        record: &Record,
        manifest: &Manifest,
        run: &Range<usize>,
    ) -> Result<(), FetchError> {
        let offset = manifest.range(run.start).start;
        let asked = manifest.range(run.end - 1).end - offset;
        let ranges = List::first_of([ByteRange { offset, len: asked }]);
        let grant = self.ask(&DataRequest::Get { content: record.content, ranges }).await?;
        if grant.len != asked {
            return Err(FetchError::WrongLength { offered: grant.len, asked });
        }
        Ok(())
    }

    /// The next chunk that was asked for, verified.
    pub(crate) async fn chunk(&mut self, manifest: &Manifest, index: usize) -> Result<Vec<u8>, FetchError> {
        let chunk = manifest.chunks()[index];
        let mut bytes = vec![0; chunk.len as usize];
        let receiving = self.stream.receive_bytes(&mut bytes);
        timeout(CHUNK_WITHIN, receiving).await.map_err(|_| DataError::Stalled)??;
        if hash(&bytes) == chunk.hash { Ok(bytes) } else { Err(FetchError::Corrupt) }
    }

    async fn ask(&mut self, request: &DataRequest) -> Result<Grant, FetchError> {
        self.stream.send(request).await?;
        let reply: DataReply = self.stream.receive(STALL_TIMEOUT).await?;
        Ok(reply?)
    }
}

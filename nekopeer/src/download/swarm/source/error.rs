//! [`FetchError`]: why a source did not deliver, and whether it is asked again, left or banned for that.

use nekoproto::{
    FetchRefusal, ManifestError,
    transport::{ConnectError, DataError},
};

use crate::state::pace::{PACE_WINDOW, SLOWEST_SOURCE};

#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The stream broke, ended early or stalled.
    #[error(transparent)]
    Stream(DataError),
    #[error("it sent less than {} KiB/s for {} s", SLOWEST_SOURCE / 1024, PACE_WINDOW.as_secs())]
    TooSlow,
    #[error(transparent)]
    Refused(#[from] FetchRefusal),
    #[error("it sent a corrupt chunk")]
    Corrupt,
    #[error("it sent a run that does not unpack")]
    BadPacking,
    #[error("it offered {offered} bytes where {asked} were asked for")]
    WrongLength {
        /// Bytes granted.
        offered: u64,
        /// Bytes requested.
        asked: u64,
    },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl From<DataError> for FetchError {
    fn from(error: DataError) -> Self {
        match error {
            DataError::Hello(refused) => Self::Connect(refused), // it comes with the first answer
            error => Self::Stream(error),
        }
    }
}

impl FetchError {
    /// Whether this proves that the source sends bytes which are not the file's; it is banned then.
    #[must_use]
    pub(crate) const fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt | Self::BadPacking | Self::WrongLength { .. } | Self::Manifest(_))
    }

    /// Whether it was not even tried, as others failed before.
    pub(crate) const fn follows_from_others(&self) -> bool {
        matches!(self, Self::Connect(ConnectError::LeftAlone(_)))
    }

    /// Whether the source may deliver later.
    #[must_use]
    pub(crate) const fn is_busy(&self) -> bool {
        matches!(self, Self::Refused(FetchRefusal::Busy | FetchRefusal::NotYet))
    }

    /// Whether the link to the source may be to blame, which may be up again soon.
    #[must_use]
    pub(crate) const fn is_of_link(&self) -> bool {
        matches!(self, Self::Stream(_) | Self::Connect(ConnectError::Timeout(_) | ConnectError::Silent(_)))
    }

    /// Whether a retry is pointless for this download.
    #[must_use]
    pub(crate) const fn is_final(&self) -> bool {
        match self {
            Self::Refused(refusal) => !matches!(refusal, FetchRefusal::Busy | FetchRefusal::NotYet),
            // Of anything else, the address may be to blame: somebody may have named a wrong one.
            Self::Connect(error) => error.is_of_access(),
            _ => self.is_corrupt(),
        }
    }
}

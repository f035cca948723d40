//! Asks the origin, on the data stream to it, whether a version is the newest.

use std::time::{Duration, Instant};

use nekoproto::{DataReply, DataRequest, Held, Verdict, codec, transport::DataError};

use super::{FetchError, Source};
use crate::util::clock;

/// Bytes of an origin's verdict: that of a later version has its record, with a name and a signature.
const VERDICT_BYTES_MAX: usize = 16 * 1024;

/// Age of an answer of the origin, from the question on, beyond which it is asked again.
const VERDICT_COUNTS_FOR: Duration = Duration::from_secs(2);

impl Source {
    /// Asks the origin whether `held` is the newest version of its file, behind all that it was asked before;
    /// [`hear_verdict`](Self::hear_verdict) receives the answer.
    pub(crate) fn ask_verdict(&mut self, held: Held) -> Result<(), FetchError> {
        (self.asked, self.verdict) = (Some((held.clone(), clock::now())), None);
        Ok(self.stream.send(&DataRequest::Confirm(held))?)
    }

    /// Whether it was asked.
    pub(crate) const fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Waits at most `patience` for each part of the answer, and keeps it.
    pub(crate) fn hear_verdict(&mut self, patience: Duration) -> Result<(), FetchError> {
        self.stream.end_at(Some(Instant::now() + patience));
        let grant = self.stream.receive::<DataReply>(patience)??;
        let len = usize::try_from(grant.len).ok().filter(|len| *len <= VERDICT_BYTES_MAX);
        let wrong = FetchError::WrongLength { offered: grant.len, asked: VERDICT_BYTES_MAX as u64 };
        let mut bytes = vec![0; len.ok_or(wrong)?];
        self.stream.receive_bytes(&mut bytes)?;
        self.verdict = Some(codec::decode(&bytes).map_err(DataError::from)?);
        Ok(())
    }

    /// The answer to a question of the last moment, and when that was asked; it is asked now if there was none.
    pub(crate) fn verdict(
        &mut self,
        held: Held,
        patience: Duration,
    ) -> Result<Option<(Verdict, Instant)>, FetchError> {
        let is_of_now = |(about, asked_at): &(Held, Instant)| {
            *about == held && clock::now().saturating_duration_since(*asked_at) <= VERDICT_COUNTS_FOR
        };
        if self.verdict.is_none() || !self.asked.as_ref().is_some_and(is_of_now) {
            self.ask_verdict(held)?;
            self.hear_verdict(patience)?;
        }
        Ok(self.verdict.take().zip(self.asked.take().map(|(_, asked_at)| asked_at)))
    }
}

//! [`Stdout`]: writes to stdout, and tells a closed pipe there from other errors. The program then ends without a word and with
//! the exit code of SIGPIPE, which itself is ignored: sockets would raise it too.

use std::{
    error::Error,
    io::{self, StdoutLock, Write},
    iter::successors,
};

/// Exit code of a program whose output nobody reads any more: that of a shell for SIGPIPE.
pub const EXIT_UNREAD: u8 = 141;

/// Stdout.
#[derive(Debug)]
pub struct Stdout(StdoutLock<'static>);

/// Why it takes nothing.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout: {0}")]
struct Unwritten(io::Error);

impl Stdout {
    /// Waits until nobody else writes there.
    #[must_use]
    pub fn lock() -> Self {
        Self(io::stdout().lock())
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(of_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(of_stdout)
    }
}

fn of_stdout(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unwritten(error))
}

/// Whether `error` is that whoever read stdout has gone away, as `head` does: nothing that a user has to be told.
#[must_use]
pub fn is_unread(error: &(dyn Error + 'static)) -> bool {
    let mut causes = successors(Some(error), |error| (**error).source());
    causes.any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        let is_of_stdout = |cause: &&io::Error| cause.get_ref().is_some_and(|inner| inner.is::<Unwritten>());
        cause.filter(is_of_stdout).is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn only_a_reader_of_stdout_that_went_away_is_no_error() {
        let of = |kind: io::ErrorKind| of_stdout(kind.into());
        let wrapped = Err::<(), _>(of(io::ErrorKind::BrokenPipe)).context("a.txt").unwrap_err();
        assert!(is_unread(wrapped.as_ref()));
        assert!(!is_unread(&of(io::ErrorKind::StorageFull)));
        assert!(!is_unread(&io::Error::from(io::ErrorKind::BrokenPipe)), "of a connection");
    }
}

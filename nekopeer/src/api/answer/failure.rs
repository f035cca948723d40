//! Maps the kind of a [`Failure`] to an exit code and an HTTP status, and prints it.

use hyper::StatusCode;

use crate::{
    failure::{Failure, FailureKind, in_one_line, is_full},
    terminal::Output,
};

impl FailureKind {
    pub(crate) const fn exit_code(self) -> u8 {
        if matches!(self, Self::NotFound) { 1 } else { 3 }
    }

    pub(crate) const fn http_status(self) -> (StatusCode, &'static str) {
        match self {
            Self::NotFound | Self::NoSuchPath => (StatusCode::NOT_FOUND, "not found"),
            Self::Conflict => (StatusCode::CONFLICT, "conflict"),
            Self::Cancelled => (StatusCode::CONFLICT, "cancelled"),
            Self::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "cannot be done"),
            Self::Full => (StatusCode::INSUFFICIENT_STORAGE, "disk full"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::Away => (StatusCode::SERVICE_UNAVAILABLE, "another node is away"),
            Self::Moved => (StatusCode::SERVICE_UNAVAILABLE, "the peer ends"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        }
    }
}

impl Failure {
    pub(crate) fn print(&self, output: Output) {
        output.error(self, self.remedy);
    }

    /// The failure in an error that a program ends with, with what it is about.
    pub(crate) fn of_any(error: &anyhow::Error) -> Self {
        let is_full = error.downcast_ref().is_some_and(is_full);
        let kind = if is_full { FailureKind::Full } else { FailureKind::Failed };
        let known = error.downcast_ref::<Self>().cloned();
        Self { message: in_one_line(error.as_ref()), ..known.unwrap_or_else(|| Self::with(kind, "")) }
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::Remedy;

    use super::*;
    use crate::storage::lock::in_use;

    #[test]
    fn an_error_that_a_program_ends_with_has_the_kind_of_its_cause() {
        let error = anyhow::Error::from(in_use("folder".as_ref(), None)).context("cannot repair it");
        let Failure { message, kind, remedy, .. } = Failure::of_any(&error);
        assert_eq!((kind, remedy), (FailureKind::Busy, Some(Remedy::DataDir)));
        assert!(message.starts_with("cannot repair it: the data folder folder is in use"), "{message}");
        let full = anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert_eq!(Failure::of_any(&full.context("cannot write")).kind, FailureKind::Full);
        assert_eq!(Failure::of_any(&anyhow::anyhow!("other")).kind, FailureKind::Failed);
    }
}

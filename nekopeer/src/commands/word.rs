//! [`Word`]: what names a file to be fetched.

use std::str::FromStr;

use nekoproto::{FileName, NameError, TICKET_PREFIX, Ticket, TicketError};
use serde::Deserialize;

/// A name, which may end with `@ORIGIN`, or a ticket.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub enum Word {
    /// A name.
    Name(FileName),
    /// A ticket.
    Ticket(Box<Ticket>),
}

/// Why a word is neither.
#[derive(Debug, thiserror::Error)]
pub enum WordError {
    /// It is no name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It looks like a ticket.
    #[error(transparent)]
    Ticket(#[from] TicketError),
}

impl Word {
    /// The name that it means.
    pub(crate) const fn name(&self) -> &FileName {
        match self {
            Self::Name(name) => name,
            Self::Ticket(ticket) => &ticket.name,
        }
    }
}

impl FromStr for Word {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        match text.starts_with(TICKET_PREFIX) {
            true => Ok(Self::Ticket(Box::new(text.parse()?))),
            false => Ok(Self::Name(FileName::new(text)?)),
        }
    }
}

impl TryFrom<String> for Word {
    type Error = WordError;

    fn try_from(text: String) -> Result<Self, WordError> {
        text.parse()
    }
}

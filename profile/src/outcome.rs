//! How the program ends.

use crate::prelude::*;

/// Why a command failed.
#[derive(Debug)]
pub enum Fault {
    /// It could not begin: wrong usage, or something that must be there is not.
    Begin(anyhow::Error),
    /// It began, and then something went wrong.
    Run(anyhow::Error),
}

impl From<anyhow::Error> for Fault {
    fn from(error: anyhow::Error) -> Self {
        Self::Run(error)
    }
}

/// For whatever must work before a command can begin.
pub trait Begin<T> {
    fn or_cannot_begin(self) -> Result<T, Fault>;
}

impl<T, E: Into<anyhow::Error>> Begin<T> for Result<T, E> {
    fn or_cannot_begin(self) -> Result<T, Fault> {
        self.map_err(|error| Fault::Begin(error.into()))
    }
}

/// How a command that did not fail ended, and its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    Done = 0,
    /// What was compared became worse.
    Regressed = 1,
    /// It was measured, but not all is well: a wrong answer, a failure, or it was ended early.
    NotAllWell = 3,
}

impl Outcome {
    /// Prints what is `off`, if anything.
    pub(crate) fn judged(off: &[String], what: &str) -> Result<Self, Fault> {
        if off.is_empty() {
            print("all within the tolerance")?;
            return Ok(Self::Done);
        }
        print(&format!("\n{} {what}:\n  {}", off.len(), off.join("\n  ")))?;
        Ok(Self::Regressed)
    }
}

pub(crate) fn print(text: &str) -> Result<()> {
    writeln!(io::stdout(), "{}", text.trim_end()).context("cannot write to stdout")
}

impl Fault {
    /// What to say of it beside the results, if something was measured by then; otherwise the fault is all there is.
    pub(crate) fn after(self, is_measured: bool) -> Result<String, Self> {
        if is_measured { Ok(format!("{:#}", self.parts().1)) } else { Err(self) }
    }

    /// The exit code, and what to say.
    pub const fn parts(&self) -> (u8, &anyhow::Error) {
        match self {
            Self::Begin(error) => (2, error),
            Self::Run(error) => (3, error),
        }
    }
}

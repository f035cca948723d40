//! The door of a data folder: a local socket at which the peer that runs there takes commands, over HTTP.
//!
//! Only the process that holds the lock of the data folder opens the [`Door`]. Everyone else who wants something done
//! there [`knock`]s. The body of a request is a line of JSON, the [`Call`](call::Call), and then its input; that of the answer is a line
//! for each [`Reply`](crate::api::Reply). If the caller leaves, the command is interrupted. Where no peer runs, the same
//! router is called in the process.

mod call;
mod caller;
mod facts;
mod lines;
mod place;
mod router;
mod server;
#[cfg(test)]
mod tests;

use std::{io, path::Path};

use nekoproto::Remedy;

pub(crate) use self::{
    caller::{Caller, knock},
    facts::Facts,
    server::Door,
};
use crate::failure::{Failure, Reason};

fn nobody_there(folder: &Path) -> Failure {
    let message = format!("no peer takes commands at {}", folder.display());
    Failure::new(message).because(Reason::NoPeer)
}

/// The peer runs as another user.
fn not_allowed(folder: &Path, error: &io::Error) -> Failure {
    let help = "run this as that user";
    let message = format!("the peer of {} belongs to another user: {error}; {help}", folder.display());
    Failure::conflict(message).remedied(Remedy::DataDir)
}

fn other_version(folder: &Path) -> Failure {
    let help = "end it with that version, or by a signal";
    Failure::new(format!("the running peer of {} is another version of nekopeer: {help}", folder.display()))
}

fn broken(folder: &Path, error: &io::Error) -> Failure {
    let help = "run this again, and end the peer by a signal if it stays so";
    Failure::new(format!("the running peer of {} cannot be asked: {error}; {help}", folder.display()))
}

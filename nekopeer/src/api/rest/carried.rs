//! Commands of HTTP requests, and their failures as [`Problem`]s.

use std::time::Instant;

use axum::http::StatusCode;
use nekoindexer::daemon::http::Problem;
use nekoproto::{
    Remedy,
    transport::slots::{Activity, Slot, SlotOwner},
};

use super::Inside;
use crate::api::{COMMANDS_MAX, Carried as AtHost, Command, Done, Failure, Input, Reply, Row};

const ROWS_MAX: usize = 100_000;

/// Commands of HTTP requests carried out at once: fewer than [`COMMANDS_MAX`], so that readers who take their answers
/// slowly leave room for the commands of this host. They make room for each other too.
pub(super) const HTTP_COMMANDS_MAX: usize = 48;
const _: () = assert!(HTTP_COMMANDS_MAX < COMMANDS_MAX);

pub(crate) struct Carried {
    at_host: AtHost,
    slot: Slot,
}

impl Inside {
    /// Begins a command, with a slot among those of HTTP requests.
    pub(crate) fn carry_out(&self, command: impl Into<Command>, input: Input) -> Result<Carried, Problem> {
        let slot = self.commands.enter(SlotOwner::LOCAL, Activity::busy()).ok_or_else(busy)?;
        let displaced = slot.activity().ended().clone().cancelled_owned();
        let at_host = self.host.begin(command.into(), input, displaced);
        Ok(Carried { at_host: at_host.map_err(|failure| problem(&failure))?, slot })
    }
}

fn busy() -> Problem {
    Problem::unavailable(format!("{HTTP_COMMANDS_MAX} requests are carried out already: retry later"))
}

impl Carried {
    /// The next reply but progress.
    pub(crate) async fn next(&mut self) -> Reply {
        let activity = self.slot.activity();
        activity.set_busy(true);
        loop {
            let reply = match self.at_host.replies.recv().await {
                Some(Reply::Progress(_) | Reply::Parts(_)) => continue,
                Some(reply) => reply,
                None => Reply::Finished(Err(Failure::new("the command ended without an answer"))),
            };
            // Until it is asked for the next one.
            activity.idle_since(Instant::now());
            return reply;
        }
    }

    pub(crate) async fn rows(mut self) -> Result<(Vec<Row>, Done), Problem> {
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Reply::Rows(rows) => all.extend(rows),
                Reply::Finished(Ok(done)) => return Ok((all, done)),
                Reply::Finished(Err(failure)) => return Err(problem(&failure)),
                _ => {}
            }
            if all.len() > ROWS_MAX {
                let detail = format!("the answer has more than {ROWS_MAX} rows: ask for fewer at once");
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too much", detail));
            }
        }
    }
}

pub(crate) fn problem(failure: &Failure) -> Problem {
    let (status, title) = failure.kind.http_status();
    let may_force = failure.remedy == Some(Remedy::Force);
    let advice = if may_force { "; or replace it with force=true" } else { "" };
    Problem::new(status, title, format!("{failure}{advice}"))
}

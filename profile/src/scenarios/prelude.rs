//! What most scenarios use.

pub(crate) use nekoindexer::{daemon::threads::THREADS_DEFAULT, state::index::SESSION_NAMES_MAX};
pub(crate) use nekoproto::limits::CONNECTIONS_MAX;

pub(crate) use crate::prelude::*;

pub(crate) use super::Scenario;
pub(crate) use crate::cluster::deployment::{Connecting, Deployment, Setup, within};
pub(crate) use crate::cluster::{client::Client, net::Net};
pub(crate) use crate::floor::Floor;
pub(crate) use crate::node::{
    Downloads, PeerOptions, Request, Role, http::Http, locked, process::Process, usage::Usage, usage::now_s,
};
pub(crate) use crate::outcome::{Begin, Fault};
pub(crate) use crate::plan::{topology::Graph, workload::sign_next, workload::sign_record};
pub(crate) use crate::plot::{Axis, Lines, Picture, Points, bars, histogram, lines, of_rows};
pub(crate) use crate::report::{
    Report, Row, Section, amount, bytes, count,
    figures::{Figures, P99_FROM, Times},
    goals::{self, Bound, Goal},
    machine, median, mib, option_name,
    outputs::{Detailed, Drawn, Output},
    security_name, some_of,
};
pub(crate) use crate::run::{
    Watch,
    files::{self, apart},
    folder::Folder,
    watch::{LINKED_WITHIN, Progress, note, until},
};

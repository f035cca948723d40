//! What most scenarios use.

pub(crate) use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

pub(crate) use anyhow::{Context, ensure};
pub(crate) use clap::{Args, ValueEnum};
pub(crate) use nekoproto::{FileName, Identity, SignedRecord, VerifiedRecord};
pub(crate) use serde_json::json;

pub(crate) use crate::cluster::{client::Client, deployment::Deployment, net::Net};
pub(crate) use crate::floor::Floor;
pub(crate) use crate::node::{Request, process::Process};
pub(crate) use crate::outcome::{Begin, Fault};
pub(crate) use crate::plot::{Axis, Picture, lines, of_rows};
pub(crate) use crate::report::{
    Report, Row, Section, amount, bytes, count,
    figures::Figures,
    goals::{Bound, Goal},
    machine, median, mib, option_name,
    outputs::{Detailed, Drawn, Output},
    security_name, some_of,
};
pub(crate) use crate::run::{
    Watch,
    folder::Folder,
    setup::{Connecting, Setup, within},
    watch::{LINKED_WITHIN, Progress, note, until},
};
pub(crate) use crate::scenario::Scenario;

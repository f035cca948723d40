//! What most files use of other crates.

pub(crate) use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs, io,
    io::Write,
    net::SocketAddr,
    num::NonZeroU64,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

pub(crate) use anyhow::{Context, anyhow, bail, ensure};
pub(crate) use clap::{Args, ValueEnum};
pub(crate) use futures::{StreamExt, TryStreamExt, stream};
pub(crate) use nekoindexer::{ProbeCounts, Routing};
pub(crate) use nekopeer::PeerHandle;
pub(crate) use nekoproto::{
    FileName, Holder, Identity, MsgId, NodeAddrs, QueryReply, Records, RegisterRequest, SignedRecord,
    VerifiedRecord,
    limits::BATCH_MAX,
    transport::{Security, call_until},
};
pub(crate) use rand::{RngExt, SeedableRng, rngs::StdRng};
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::{Value, json};
pub(crate) use tarpc::context;
pub(crate) use testkit::network::ANY_PORT;
pub(crate) use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{interval, sleep, sleep_until, timeout},
};
pub(crate) use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

//! What most files use of other crates.

pub(crate) use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs::{self, File},
    hint::black_box,
    io::{self, Read, Write},
    net::SocketAddr,
    num::{NonZeroU64, NonZeroUsize},
    ops::{Range, RangeInclusive},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub(crate) use anyhow::{Context, Result, anyhow, bail, ensure};
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
pub(crate) use serde::{Deserialize, Serialize, de::DeserializeOwned};
pub(crate) use serde_json::{Value, json};
pub(crate) use tarpc::context;
pub(crate) use testkit::{lan::Namespace, network::ANY_PORT};
pub(crate) use tokio::{
    runtime::{Builder, Handle},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{interval, sleep, sleep_until, timeout},
};
pub(crate) use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

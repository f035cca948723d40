//! Prelude of this crate: the imports that most of its files share.

pub(crate) use futures::{FutureExt, future::try_join};
pub(crate) use nekoproto::{
    codec::{self, CodecError},
    indexer::IndexerServiceRequest,
    limits::*,
    probe::ProbeRequest,
    summary::{Change, Filter, NameKey, SummaryNews, SummaryReply},
    transport::{
        Access, ConnectError, Connection, DataStream, Endpoint, EndpointConfig, EndpointError, Envelope,
        Listener, NodeIo, Security,
        control::{self, Driver},
    },
    *,
};
pub(crate) use rand::{RngExt, SeedableRng, rngs::StdRng};
pub(crate) use serde::{Deserialize, Serialize, de::DeserializeOwned};
pub(crate) use std::{
    collections::{HashMap, HashSet},
    future::{Future, pending},
    io, iter,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroU64,
    ops::Range,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
pub(crate) use tarpc::{
    context::{self, Context},
    server::ServeFn,
};
pub(crate) use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{Notify, mpsc, watch},
    task::{JoinSet, spawn_blocking},
    time::{interval, sleep, timeout},
};
pub(crate) use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::{AbortOnDropHandle, TaskTracker},
};

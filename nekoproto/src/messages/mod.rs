//! What nodes say to each other. Wire types: a changed message means another protocol version.

mod data;
mod error;
pub mod hello;
pub mod indexer;
pub mod peer;
pub mod summary;
mod trace;

pub use self::{
    data::{ByteRange, DataReply, DataRequest, Freshness, Grant},
    error::{Fault, FetchRefusal, HelloRefusal, Refusal},
    hello::{Hello, NetworkName, PROTOCOL_VERSION, Purpose, Role},
    indexer::{
        Answers, Covered, Held, Hit, Holder, IndexerService, InvalidateRequest, LeaseReply, Names,
        QueryAllRequest, QueryReply, QueryRequest, Records, RegisterReply, RegisterRequest,
    },
    peer::{PeerService, Verdict},
    trace::{NoAnswer, TraceAnswer, TraceFound, TraceHop, TraceReply, Unasked, WhyUnasked},
};

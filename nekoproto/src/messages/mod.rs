//! What nodes say to each other. Wire types: a changed message means another protocol version.

mod data;
mod error;
mod find;
pub mod hello;
mod hit;
pub mod indexer;
pub mod peer;
pub mod probe;
pub mod summary;
mod trace;

pub use self::{
    data::{ByteRange, DataReply, DataRequest, Freshness, Grant, Packing, Portion},
    error::{Fault, FetchRefusal, HelloRefusal, Refusal},
    find::{IdDigits, NotAPosition, NotATerm, NotDigits, Position, Search, Term, Terms},
    hello::{Hello, NetworkName, PROTOCOL_VERSION, Purpose, Role},
    hit::{Hit, Holder, ListedHolder, Via},
    indexer::{
        Answers, CallBack, Covered, FindReply, FindRequest, Held, IndexerService, InvalidateRequest,
        LeaseReply, Names, QueryAllRequest, QueryReply, QueryRequest, Records, RegisterReply,
        RegisterRequest,
    },
    peer::{Numbered, PeerService, Verdict},
    trace::{NoAnswer, TraceAnswer, TraceFound, TraceHop, TraceReply, Unasked, WhyUnasked},
};

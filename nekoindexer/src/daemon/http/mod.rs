//! The HTTP plumbing of both daemons: a door on threads of its own, what it lets in, and how it answers errors.
//!
//! | file | what is there |
//! |---|---|
//! | `door` | [`HttpDoor`]: listens, accepts, ends |
//! | `connection` | one connection: limits and timeouts |
//! | `slots` | how many connections and event streams there may be, and which one is evicted |
//! | `io` | the bytes of a connection; one that is not read is closed |
//! | `answer` | an answer's body, and whether more of it is to come |
//! | [`send_file`] | parts of files in answers, sent without being copied |
//! | `body` | a request's body; one that does not come is cut |
//! | [`guard`](mod@guard) | which requests are let in: host, origin, fetch metadata; the headers of every answer |
//! | [`token`] | the secret of changing routes, and the extractor that asks for it |
//! | [`problem`] | errors as `application/problem+json` |
//! | [`events`] | server-sent events |
//! | [`exposition`] | figures as Prometheus reads them |

mod answer;
mod body;
mod connection;
mod door;
pub mod events;
pub mod exposition;
pub mod guard;
mod io;
pub mod problem;
pub mod send_file;
mod slots;
pub mod token;

pub(crate) use self::connection::Client;
pub use self::{
    body::is_stalled,
    door::{HttpConfig, HttpDoor},
    guard::{Guard, guarded},
    problem::Problem,
    send_file::FileSender,
    token::{Authorized, Token, TokenError},
};

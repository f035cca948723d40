//! The caller's side: knocks, hands over a command, and passes its answer on.

use std::{io, net::Shutdown, path::Path, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
};
use futures::{StreamExt, stream};
use hyper::{
    Request, StatusCode,
    client::conn::http1::{SendRequest, handshake},
    header::{HOST, HeaderValue},
    service::Service,
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{net::UnixStream, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Facts, broken,
    call::Call,
    facts::DOOR_VERSION,
    lines::{line, next_reply, reader},
    nobody_there, not_allowed, other_version,
    place::SocketPlace,
    router::{FACTS, RUN, router},
};
use crate::api::{Answer, Command, Done, Failure, FailureKind, Host, Input, Piece, Reply, Row, no_input};

/// Interval between attempts to connect to a socket whose queue is full.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// Time limit for the peer to confirm that an interrupted command has ended.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(1);
const FACTS_BYTES_MAX: usize = 1024 * 1024;

/// Has commands carried out, by a peer of this process or, one, by another process.
pub(crate) struct Caller {
    pub(crate) facts: Facts,
    to: To,
    pub(crate) is_answered: bool,
}

enum To {
    Here(TowerToHyperService<Router>),
    There(Box<Connection>),
}

struct Connection {
    requests: SendRequest<Body>,
    /// The same socket, to close one direction.
    socket: std::os::unix::net::UnixStream,
    driving: AbortOnDropHandle<()>,
}

/// Knocks at the door of a data folder. Waits while the peer does not answer.
pub(crate) async fn knock(data_dir: &Path) -> Result<Caller, Failure> {
    let broken = |error: io::Error| broken(data_dir, &error);
    let stream = connect(data_dir).await?;
    let stream = stream.into_std().map_err(broken)?;
    let socket = stream.try_clone().map_err(broken)?;
    let stream = UnixStream::from_std(stream).map_err(broken)?;
    // An end here: the peer ended before it looked at this connection.
    let failed = |error: hyper::Error| match error.is_parse() {
        true => other_version(data_dir),
        false => nobody_there(data_dir),
    };
    let (mut requests, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let driving = async move { drop(connection.await) }; // its end is seen by the requests
    let driving = AbortOnDropHandle::new(tokio::spawn(driving));
    let asked = requests.send_request(request("GET", FACTS, Body::empty())).await;
    let mut connection = Connection { requests, socket, driving };
    let answer = match asked {
        Ok(answer) if answer.status() == StatusCode::OK => answer,
        Ok(_) => return Err(other_version(data_dir)),
        Err(error) => return Err(failed(error)),
    };
    let facts = to_bytes(Body::new(answer.into_body()), FACTS_BYTES_MAX).await;
    let facts = facts.map_err(|_| nobody_there(data_dir))?;
    let facts: Facts = serde_json::from_slice(&facts).map_err(|_| other_version(data_dir))?;
    if facts.version != DOOR_VERSION {
        return Err(other_version(data_dir));
    }
    connection.requests.ready().await.map_err(failed)?;
    Ok(Caller { facts, to: To::There(Box::new(connection)), is_answered: false })
}

fn request(method: &str, path: &str, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    *request.method_mut() = method.parse().unwrap_or_default();
    *request.uri_mut() = hyper::Uri::try_from(path).unwrap_or_default();
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    request
}

async fn connect(data_dir: &Path) -> Result<UnixStream, Failure> {
    use io::ErrorKind;
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::ConnectionRefused
        | ErrorKind::ConnectionReset // it has just closed its socket
        | ErrorKind::NotADirectory => nobody_there(data_dir),
        ErrorKind::PermissionDenied => not_allowed(data_dir, &error),
        _ => broken(data_dir, &error),
    };
    let place = SocketPlace::find(data_dir).map_err(failed)?;
    loop {
        match place.connect().await {
            Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(TRY_EVERY).await,
            connected => return connected.map_err(failed),
        }
    }
}

impl Caller {
    /// Calls a peer of this process. To be called on its runtime.
    pub(crate) fn here(host: &Arc<Host>, facts: Facts) -> Self {
        Self {
            to: To::Here(TowerToHyperService::new(router(host, facts.clone()))),
            facts,
            is_answered: false,
        }
    }

    /// Has the peer carry out `command`; all of the answer but its end goes to `answer`.
    ///
    /// # Cancel safety
    /// Dropping the future interrupts the command.
    pub(crate) async fn carry_out(
        &mut self,
        command: Command,
        input: Input,
        answer: &Answer,
    ) -> Result<Done, Failure> {
        let process = self.facts.process;
        let ended = || {
            Failure::with(
                FailureKind::Moved,
                format!("the running peer (process {process}) ended before the command did"),
            )
        };
        let request = request("POST", RUN, body(&command, input));
        let response = match &mut self.to {
            To::Here(router) => match router.call(request).await {
                Ok(response) => response.into_body(),
                Err(never) => match never {},
            },
            To::There(connection) => match connection.requests.send_request(request).await {
                Ok(response) => Body::new(response.into_body()),
                Err(_) => return Err(ended()),
            },
        };
        let mut replies = reader(response);
        loop {
            match next_reply(&mut replies).await {
                Ok(Some(Reply::Finished(result))) => return result,
                Ok(Some(reply)) => {
                    self.is_answered |=
                        !matches!(reply, Reply::Progress(_) | Reply::Parts(_) | Reply::Note(_));
                    if answer.0.send(reply).await.is_err() {
                        return Err(Failure::new("nobody takes the answer"));
                    }
                }
                Ok(None) | Err(_) => return Err(ended()),
            }
        }
    }

    /// The same of a command without input: its end and its rows.
    pub(crate) async fn rows(&mut self, command: Command) -> (Result<Done, Failure>, Vec<Row>) {
        let ((answer, mut replies), mut rows) = (Answer::channel(), Vec::new());
        let asking = async move { self.carry_out(command, no_input(), &answer).await };
        let gathering = async {
            while let Some(reply) = replies.recv().await {
                rows.extend(if let Reply::Rows(rows) = reply { rows } else { Vec::new() });
            }
        };
        (tokio::join!(asking, gathering).0, rows)
    }

    /// Interrupts the command of another process. Returns when the peer has ended it, or does not say so in time.
    pub(crate) async fn interrupt(self) {
        let To::There(mut connection) = self.to else { return };
        if connection.socket.shutdown(Shutdown::Write).is_ok() {
            // A peer that does not answer now finds the connection closed later.
            let _ = timeout(INTERRUPTED_WITHIN, &mut connection.driving).await;
        }
    }
}

/// The body of a request: the call in a line, and its input.
fn body(command: &Command, input: Input) -> Body {
    let first = line(&Call::of(command));
    if !command.api().about().takes_input {
        return first.into();
    }
    let rest = stream::try_unfold(input, async |mut input: Input| match input.recv().await {
        Some(Piece::Bytes(bytes)) => Ok(Some((Bytes::from(bytes), input))),
        Some(Piece::End) => Ok(None),
        Some(Piece::Failed(why)) => Err(io::Error::other(why)),
        None => Err(io::Error::other("the input was cut off")),
    });
    Body::from_stream(stream::iter([Ok(Bytes::from(first))]).chain(rest))
}

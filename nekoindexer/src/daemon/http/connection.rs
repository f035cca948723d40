//! Serves one HTTP connection, within its limits.

use std::{convert::Infallible, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    response::{IntoResponse, Response},
};
use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{CONNECTION, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpStream, task::yield_now};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    Problem,
    answer::Busy,
    body::Patient,
    io::Io,
    slots::{EVENT_STREAMS_MAX, HttpSlot},
};

/// How long a connection may take to bring the whole head of its next request; so it is also how long an idle
/// one stays open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes that are read ahead of a body, and gathered of an answer before they are written.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
const _: () = assert!(HEAD_BYTES_MAX < BUFFER_BYTES_MAX);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub(crate) IpAddr);

/// Serves `stream` until it ends or has to give its place away; after `stop` until the answer that is being sent is
/// complete.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn serve(stream: TcpStream, router: Router, stop: CancellationToken, slot: HttpSlot) {
    let activity = slot.activity().clone();
    let io = stream.peer_addr().and_then(|from| Ok((Client(from.ip()), Io::new(stream, activity)?)));
    let (client, io) = match io {
        Ok(io) => io,
        Err(error) => return debug!(%error, "HTTP connection lost before its first request"),
    };
    let router = TowerToHyperService::new(router);
    let files = io.file_sender();
    let slot = Arc::new(slot);
    let ended = slot.ended().clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = Busy::with_request(slot.activity());
        request.extensions_mut().insert(files.clone());
        request.extensions_mut().insert(client);
        let answering = router.call(request.map(|body| Body::new(Patient::new(body))));
        let slot = Arc::clone(&slot);
        async move {
            yield_now().await; // others have their turn between two requests of one connection
            Ok::<_, Infallible>(among_streams(&slot, answering.await?).map(|body| busy.with(body)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ended.cancelled() => return debug!("HTTP connection closed: others came"),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "HTTP connection ended"); // by a client that left, was too slow, or spoke no HTTP
    }
}

/// An answer; if it is a stream of events, with a slot among these, or else a refusal.
fn among_streams(slot: &HttpSlot, mut answer: Response) -> Response {
    let is_stream = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/event-stream");
    if !answer.headers().get(CONTENT_TYPE).is_some_and(is_stream) {
        return answer;
    }
    if !slot.becomes_stream() {
        let detail = format!("at most {EVENT_STREAMS_MAX} event streams are open at once; close one");
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many event streams", detail)
            .into_response();
    }
    // Afterwards the connection has no slot for another request.
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::Instant,
    };

    use super::{super::slots::HttpSlots, *};

    /// Clients that begin a request and never end it. Paused time runs on when nothing else happens.
    #[tokio::test(start_paused = true)]
    async fn slow_heads_are_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        for head in ["", "G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n"] {
            let mut client = TcpStream::connect(addr).await.unwrap();
            client.write_all(head.as_bytes()).await.unwrap();
            let slot = HttpSlots::new().enter(addr.ip()).unwrap();
            let began = Instant::now();
            serve(listener.accept().await.unwrap().0, Router::new(), CancellationToken::new(), slot).await;
            assert!(began.elapsed() < HEAD_TIMEOUT * 2, "{head:?}");
            let _ = client.read_to_end(&mut Vec::new()).await; // closed or reset, but not left open
        }
    }

    /// Goal: connections with many requests at once, whose answers nobody reads, delay others by one request each.
    #[tokio::test]
    async fn requests_of_one_connection_wait_for_those_of_others() {
        const CONNECTIONS: usize = 20;
        let answered = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&answered);
        let count = move || async move { counted.fetch_add(1, Relaxed).to_string() };
        let router = Router::new().route("/", axum::routing::get(count));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, slots) = (listener.local_addr().unwrap(), HttpSlots::new());
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut clients = Vec::new();
        for n in 0..=CONNECTIONS {
            let mut client = TcpStream::connect(addr).await.unwrap();
            client.write_all(request.repeat(if n < CONNECTIONS { 100 } else { 1 }).as_bytes()).await.unwrap();
            clients.push((client, listener.accept().await.unwrap().0));
        }
        let (mut clients, streams): (Vec<_>, Vec<_>) = clients.into_iter().unzip();
        for stream in streams {
            let slot = slots.enter(addr.ip()).unwrap();
            tokio::spawn(serve(stream, router.clone(), CancellationToken::new(), slot));
        }
        let mut answer = vec![0; 1024];
        let read = clients.pop().unwrap().read(&mut answer).await.unwrap();
        let text = String::from_utf8_lossy(&answer[..read]).into_owned();
        let before: usize = text.rsplit("\r\n").next().unwrap().parse().unwrap();
        assert!(before < 4 * CONNECTIONS, "{before} were answered before");
    }
}

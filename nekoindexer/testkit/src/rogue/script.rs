//! A scripted holder: what it replies to data requests.

use crate::prelude::*;

use super::peer::Silent;

/// How long a reader may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct ScriptedReply {
    reply: DataReply,
    pieces: Pieces,
    then: Then,
    gate: Option<Arc<Notify>>,
    pause: Option<Duration>,
    is_packed: bool,
}

/// What is sent, piece by piece; making one may block.
type Pieces = Box<dyn Iterator<Item = io::Result<Vec<u8>>> + Send>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    GoOn,
    Close,
    /// Sends nothing more and keeps the connection open.
    Hang,
}

impl ScriptedReply {
    pub fn of(bytes: Vec<u8>) -> Self {
        Self::granting(bytes.len() as u64, bytes)
    }

    pub fn granting(len: u64, bytes: Vec<u8>) -> Self {
        Self::in_pieces(
            len,
            [Ok(bytes)].into_iter().filter(|piece| !matches!(piece, Ok(none) if none.is_empty())),
        )
    }

    pub fn in_pieces(len: u64, pieces: impl Iterator<Item = io::Result<Vec<u8>>> + Send + 'static) -> Self {
        let reply = Ok(Grant { len, freshness: Freshness::Fresh, portion: None });
        Self { reply, pieces: Box::new(pieces), then: Then::GoOn, gate: None, pause: None, is_packed: false }
    }

    pub fn refusal(refusal: FetchRefusal) -> Self {
        Self { reply: Err(refusal), ..Self::of(Vec::new()) }
    }

    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }

    pub fn behind(self, gate: &Arc<Notify>) -> Self {
        Self { gate: Some(Arc::clone(gate)), ..self }
    }

    pub fn trickling(self, pause: Duration) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// These bytes packed so, whatever they are: the reply to a request for packed ones alone.
    pub fn packed(packing: &Packing, bytes: &[u8]) -> Self {
        Self { is_packed: true, ..Self::of(packing.before(bytes).unwrap_or_default()) }
    }

    /// The same bytes as they are, if it is granted, in reply to a request for packed ones.
    fn or_plain(self) -> Self {
        let Ok(grant) = self.reply else { return self };
        if self.is_packed {
            return self;
        }
        let head = Packing::Plain.before(&[]).unwrap_or_default();
        let reply = Ok(Grant { len: grant.len + head.len() as u64, ..grant });
        Self { reply, pieces: Box::new(iter::once(Ok(head)).chain(self.pieces)), ..self }
    }

    /// Tells the reader, if it is granted, which portion of the file to begin with.
    pub fn with_portion(self, portion: Portion) -> Self {
        let reply = self.reply.map(|grant| Grant { portion: Some(portion), ..grant });
        Self { reply, ..self }
    }

    /// Grants everything, and sends only the first `len` bytes.
    pub fn cut_to(mut self, len: usize) -> Self {
        let mut bytes: Vec<u8> = self.pieces.by_ref().flatten().flatten().collect();
        bytes.truncate(len);
        Self { pieces: Self::of(bytes).pieces, ..self }
    }
}

/// Serves a connection: replies to data requests as `script` says, and hears control calls, until the reader goes.
pub(super) async fn serve(connection: Connection, script: impl Fn(&DataRequest) -> ScriptedReply) {
    if connection.purpose == Purpose::Control {
        let (_client, driver) =
            control::open(connection.io, Silent::default().serve(), PeerServiceClient::from);
        return driver.await;
    }
    serve_data(connection, script).await;
}

/// Replies to data requests as `script` says, until the reader goes. One for a packed run is shown to it as one for the run.
pub async fn serve_data(connection: Connection, script: impl Fn(&DataRequest) -> ScriptedReply) {
    let Ok(mut stream) = DataStream::new(connection.io) else { return };
    let _ends_with_this = stream.hang_up().on_drop();
    loop {
        let received = blocking(stream, |stream| stream.receive::<DataRequest>(PATIENCE)).await;
        let Some((back, Ok(request))) = received else { return };
        let ScriptedReply { reply, pieces, then, gate, pause, .. } = match request {
            DataRequest::Packed { content, range, .. } => {
                script(&DataRequest::Get { content, ranges: List::first_of([range]) }).or_plain()
            }
            request => script(&request),
        };
        if let Some(gate) = gate {
            gate.notified().await;
        }
        let mut pieces = pieces.peekable();
        if then == Then::Hang && pieces.peek().is_none() {
            return std::future::pending().await;
        }
        let sent = blocking(back, move |stream| {
            stream.send(&reply)?;
            for piece in pieces {
                let piece = piece?;
                let Some(pause) = pause else {
                    stream.send_bytes(&piece)?;
                    continue;
                };
                for byte in piece.chunks(1) {
                    thread::sleep(pause);
                    stream.send_bytes(byte)?;
                }
            }
            Ok::<(), nekoproto::transport::DataError>(())
        })
        .await;
        let Some((back, sent)) = sent else { return };
        stream = back;
        match then {
            Then::GoOn if sent.is_ok() => {}
            Then::GoOn | Then::Close => return,
            Then::Hang => std::future::pending().await,
        }
    }
}

/// Does `work` with `stream` off the runtime's threads; `None` if it panicked.
fn blocking<T: Send + 'static>(
    mut stream: DataStream,
    work: impl FnOnce(&mut DataStream) -> T + Send + 'static,
) -> impl Future<Output = Option<(DataStream, T)>> {
    let done = spawn_blocking(move || {
        let done = work(&mut stream);
        (stream, done)
    });
    async { done.await.ok() }
}

//! A scripted holder: registers any record and replies to data requests as a script says.

use crate::prelude::*;

use nekoproto::peer::{PeerServiceRequest as Ask, PeerServiceResponse as Answer};

use crate::{
    PATIENCE,
    goods::Goods,
    network::ANY_PORT,
    peer::endpoint,
    rogue::{ScriptedReply, serve_data},
    service::{self, Served},
    values::{patient, registration},
};

type Script = Arc<dyn Fn(&DataRequest) -> ScriptedReply + Send + Sync>;

/// A scripted holder. Dropping it closes all its connections.
pub struct Holder {
    pub endpoint: Arc<Endpoint>,
    pub addr: SocketAddr,
    pub asked: mpsc::UnboundedReceiver<DataRequest>,
    pub told: mpsc::UnboundedReceiver<Records>,
    pub questions: mpsc::UnboundedReceiver<Question>,
    /// The connections for control calls that it has accepted, and those for data.
    pub called: Arc<AtomicUsize>,
    pub streamed: Arc<AtomicUsize>,
    calls: Calls,
    sessions: Mutex<Vec<IndexerServiceClient>>,
    stop: CancellationToken,
    _stop: DropGuard,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Question {
    Asked(List<Held, BATCH_MAX>),
    /// It hangs, and the asker waits no longer.
    GivenUp,
}

#[derive(Clone)]
struct Calls {
    told: mpsc::UnboundedSender<Records>,
    questions: mpsc::UnboundedSender<Question>,
    /// Its verdict on every copy that it is asked to confirm; `None`: it hangs.
    verdict: Arc<Mutex<Option<Verdict>>>,
}

impl Calls {
    fn serve(self) -> ServeFn<Ask, Answer, impl FnOnce(Context, Ask) -> Served<Answer> + Clone> {
        service::peer(move |_, call| self.answer(call))
    }

    async fn answer(self, call: Ask) -> Result<Answer, Refusal> {
        match call {
            Ask::Invalidate { records } => {
                let _ = self.told.send(records); // few tests receive it
                if self.verdict.lock().unwrap().is_none() {
                    return std::future::pending().await;
                }
                Ok(Answer::Invalidate(Ok(())))
            }
            Ask::Confirm { held } => {
                let _ = self.questions.send(Question::Asked(held.clone())); // few tests receive it
                let verdict = self.verdict.lock().unwrap().clone();
                let Some(verdict) = verdict else {
                    scopeguard::defer! { let _ = self.questions.send(Question::GivenUp); }
                    return std::future::pending().await;
                };
                Ok(Answer::Confirm(Ok(List::first_of(held.iter().map(|_| verdict.clone())))))
            }
            Ask::Reached { .. } => Ok(Answer::Reached(Ok(()))),
            Ask::Lend { .. } => Ok(Answer::Lend(Ok(None))),
            Ask::Introduce { .. } => Ok(Answer::Introduce(Ok(()))),
            Ask::DialBack { .. } => Err(Refusal::NotCalled),
        }
    }
}

impl Goods {
    /// A holder, the node with this seed, that is registered at `indexer` and replies as `script` says.
    pub async fn served(
        &self,
        seed: u16,
        indexer: SocketAddr,
        script: impl Fn(&Self, &DataRequest) -> ScriptedReply + Send + Sync + 'static,
    ) -> Holder {
        let goods = self.clone();
        let holder = Holder::begin(seed, move |request| script(&goods, request));
        holder.register(indexer, [self.record.to_signed()]).await;
        holder
    }

    /// The same, honest, and confirming that the version is the newest.
    pub async fn held(&self, seed: u16, indexer: SocketAddr) -> Holder {
        let holder = self.served(seed, indexer, Self::honest).await;
        holder.confirms(Verdict::Current);
        holder
    }
}

impl Holder {
    /// The node with this seed: listens and replies as `script` says. Confirms nothing.
    pub fn begin(seed: u16, script: impl Fn(&DataRequest) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let endpoint = endpoint(seed, Role::Peer, Security::Tls);
        let listener = endpoint.bind(ANY_PORT).unwrap();
        let addr = listener.local_addr();
        let (asked_sender, asked) = mpsc::unbounded_channel();
        let (told_sender, told) = mpsc::unbounded_channel();
        let verdict = Arc::new(Mutex::new(Some(Verdict::Unpublished)));
        let (question_sender, questions) = mpsc::unbounded_channel();
        let script: Script = Arc::new(move |request: &DataRequest| {
            let reply = script(request);
            let _ = asked_sender.send(request.clone()); // few tests receive it
            reply
        });
        let calls = Calls { told: told_sender, questions: question_sender, verdict };
        let served = calls.clone();
        let [called, streamed] = [(); 2].map(|()| Arc::<AtomicUsize>::default());
        let counted = [Arc::clone(&called), Arc::clone(&streamed)];
        let serve = move |connection: Connection| {
            let which = usize::from(connection.purpose == Purpose::Data);
            counted[which].fetch_add(1, Ordering::SeqCst);
            run(connection, Arc::clone(&script), served.clone())
        };
        let stop = CancellationToken::new();
        tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serve));
        let guard = stop.clone().drop_guard();
        let sessions = Mutex::default();
        Self { endpoint, addr, asked, told, questions, called, streamed, calls, sessions, stop, _stop: guard }
    }

    pub fn idle(seed: u16) -> Self {
        Self::begin(seed, |_| ScriptedReply::refusal(FetchRefusal::NotShared))
    }

    pub fn confirms(&self, verdict: Verdict) {
        *self.calls.verdict.lock().unwrap() = Some(verdict);
    }

    pub fn hangs(&self) {
        *self.calls.verdict.lock().unwrap() = None;
    }

    pub async fn register(
        &self,
        addr: SocketAddr,
        records: impl IntoIterator<Item = SignedRecord>,
    ) -> RegisterReply {
        let connection = self.endpoint.dial(addr, Purpose::Control, None).await.unwrap();
        let (client, driver) =
            control::open(connection.io, self.calls.clone().serve(), IndexerServiceClient::from);
        self.spawn(driver);
        let reply = client.register(patient(), registration(records)).await.unwrap().unwrap();
        self.sessions.lock().unwrap().push(client);
        reply
    }

    pub async fn subscribe(&self, addr: SocketAddr, held: &VerifiedRecord) {
        let held = Held { name: held.name.clone(), version: held.version, content: held.content };
        let client = self.call(addr).await;
        let verdicts = client.confirm(patient(), List::first_of([held])).await.unwrap().unwrap();
        assert_eq!(verdicts.to_vec(), [Verdict::Current]);
    }

    pub async fn call(&self, addr: SocketAddr) -> PeerServiceClient {
        let connection = self.endpoint.dial(addr, Purpose::Control, None).await.unwrap();
        let (client, driver) =
            control::open(connection.io, self.calls.clone().serve(), PeerServiceClient::from);
        self.spawn(driver);
        client
    }

    pub async fn tell(
        &self,
        addr: SocketAddr,
        news: impl IntoIterator<Item = SignedRecord>,
    ) -> Result<(), Refusal> {
        self.call(addr).await.invalidate(patient(), Records::first_of(news)).await.unwrap()
    }

    pub async fn data(&self, addr: SocketAddr) -> DataStream {
        DataStream::new(self.endpoint.dial(addr, Purpose::Data, None).await.unwrap().io).unwrap()
    }

    /// The reply of the peer at `addr` to one request; its bytes are not received.
    pub async fn ask(&self, addr: SocketAddr, request: &DataRequest) -> DataReply {
        ask_over(self.data(addr).await, request).await.1
    }

    fn spawn(&self, driver: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(driver).await });
    }
}

async fn run(connection: Connection, script: Script, calls: Calls) {
    if connection.purpose == Purpose::Control {
        let (_client, driver) = control::open(connection.io, calls.serve(), PeerServiceClient::from);
        return driver.await;
    }
    serve_data(connection, move |request| script(request)).await;
}

pub async fn ask_over(mut stream: DataStream, request: &DataRequest) -> (DataStream, DataReply) {
    stream.send(request).unwrap();
    blocking(move || {
        let reply = stream.receive(PATIENCE).unwrap();
        (stream, reply)
    })
    .await
}

/// Runs `work`, which blocks, off the runtime's threads: the peers of a test run on them.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

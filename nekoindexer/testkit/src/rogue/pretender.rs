//! A node that calls itself an indexer: what it does with calls of neighbors and peers, and what it hears.

use crate::prelude::*;

use tokio::sync::Mutex;

use super::junk::Junk;
use crate::service;
use nekoproto::indexer::{IndexerServiceRequest as Ask, IndexerServiceResponse as Answer};

/// What it does with queries. Summaries and heartbeats it confirms, and what peers register it lists.
#[derive(Clone, Debug)]
pub enum Habit {
    Says(QueryReply),
    /// Answers these names with this, and others with nothing; always as complete.
    Knows(Arc<HashMap<FileName, QueryReply>>),
    /// Answers a search by pattern with this, and queries with nothing.
    Shows(FindReply),
    /// The same; it does not answer the first search.
    ShowsAgain(FindReply, Arc<AtomicUsize>),
    /// Answers with nothing: what goes no further, as probes do, at once, and all else after this time.
    Late(Duration),
    /// Answers each query with records of its own, and searches with nothing.
    Signs(Arc<Junk>),
    /// Answers with nothing, one question after the other, each after this time.
    OneEach(Duration, Arc<Mutex<()>>),
    Refuses(Refusal),
    /// Lists all. Answers one name, and renewals, after this time, once there is one; of a list the first few, at once.
    Far(watch::Receiver<Option<Duration>>),
    /// Answers no registration, no withdrawal and no search, and counts those that wait.
    Hangs(Arc<AtomicUsize>),
    NeverAnswers,
    Panics,
}

/// Names of a list that a far one answers.
const FAR_NAMES: usize = 4;
const LEASE: LeaseReply = LeaseReply { lease_ms: 60_000, names: 0 };

/// It; clones hear into the same ears.
#[derive(Clone, Debug)]
pub struct Pretender {
    habit: Habit,
    asked: mpsc::UnboundedSender<(Context, QueryRequest)>,
    told: mpsc::UnboundedSender<InvalidateRequest>,
    summaries: mpsc::UnboundedSender<SummaryNews>,
    is_silent: watch::Sender<bool>,
}

/// What it hears. Nothing is kept of a kind that is dropped.
#[derive(Debug)]
pub struct Heard {
    /// The queries that it is asked, each with its context.
    pub asked: mpsc::UnboundedReceiver<(Context, QueryRequest)>,
    pub told: mpsc::UnboundedReceiver<InvalidateRequest>,
    /// What it is told of names.
    pub summaries: mpsc::UnboundedReceiver<SummaryNews>,
    /// Whether it answers nothing new of that at the moment.
    pub is_silent: watch::Sender<bool>,
}

fn nothing() -> QueryReply {
    QueryReply { complete: true, ..QueryReply::default() }
}

impl Habit {
    pub fn nothing() -> Self {
        Self::Says(nothing())
    }

    /// Answers each query with these, as complete.
    pub fn says(hits: impl IntoIterator<Item = Hit>) -> Self {
        Self::Says(QueryReply { hits: List::first_of(hits), ..nothing() })
    }

    /// Answers one query after the other, each after `time`.
    pub fn one_each(time: Duration) -> Self {
        Self::OneEach(time, Arc::default())
    }

    async fn answer(self, name: &FileName, ttl_hops: u8) -> Result<QueryReply, Refusal> {
        match self {
            Self::Says(reply) => Ok(reply),
            Self::Knows(replies) => Ok(replies.get(name).cloned().unwrap_or_else(nothing)),
            Self::Shows(_) | Self::ShowsAgain(..) | Self::Hangs(_) => Ok(nothing()),
            Self::Far(delay) => {
                pass(delay).await;
                Ok(nothing())
            }
            Self::Signs(junk) => Ok(junk.reply(name)),
            Self::Late(time) => {
                sleep(if ttl_hops == 0 { Duration::ZERO } else { time }).await;
                Ok(nothing())
            }
            Self::OneEach(time, turn) => {
                let _turn = turn.lock().await;
                sleep(time).await;
                Ok(nothing())
            }
            other => other.answer_nothing().await,
        }
    }

    async fn answers(self, names: &Names) -> Result<Answers, Refusal> {
        if let Self::Far(_) = self {
            return Ok(Answers::first_of((0..names.len()).map(|n| (n < FAR_NAMES).then(nothing))));
        }
        let mut answers = Vec::new();
        for name in names.iter() {
            answers.push(Some(self.clone().answer(name, 1).await?));
        }
        Ok(Answers::first_of(answers))
    }

    /// To a call that it has no answer for.
    async fn answer_nothing<T>(self) -> Result<T, Refusal> {
        match self {
            Self::Refuses(refusal) => Err(refusal),
            Self::Panics => std::panic::panic_any("as the habit says"),
            _ => pending().await,
        }
    }
}

async fn pass(mut delay: watch::Receiver<Option<Duration>>) {
    let delay = *delay.wait_for(Option::is_some).await.unwrap();
    sleep(delay.unwrap_or_default()).await;
}

fn found(hits: impl IntoIterator<Item = Hit>) -> Answer {
    Answer::Find(Ok(FindReply { hits: List::first_of(hits), complete: true, ..FindReply::default() }))
}

impl Pretender {
    pub fn new(habit: Habit) -> (Self, Heard) {
        let ((asks, asked), (tells, told)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let ((news, summaries), is_silent) = (mpsc::unbounded_channel(), watch::Sender::new(false));
        let it = Self { habit, asked: asks, told: tells, summaries: news, is_silent: is_silent.clone() };
        (it, Heard { asked, told, summaries, is_silent })
    }

    /// Serves a connection, and calls the other end.
    pub fn open(self, io: NodeIo) -> (IndexerServiceClient, Driver) {
        let service = service::indexer(move |context, call| self.answer(context, call));
        let (client, driver) = control::open(io, service, IndexerServiceClient::from);
        (client, driver.boxed())
    }

    async fn answer(self, context: Context, call: Ask) -> Result<Answer, Refusal> {
        Ok(match (call, self.habit) {
            (Ask::Query { request }, habit) => {
                let _ = self.asked.send((context, request.clone())); // few listen
                Answer::Query(Ok(habit.answer(&request.name, request.ttl_hops).await?))
            }
            (Ask::QueryAll { request }, habit) => Answer::QueryAll(Ok(habit.answers(&request.names).await?)),
            (Ask::Find { .. }, Habit::Shows(reply)) => Answer::Find(Ok(reply)),
            (Ask::Find { .. }, Habit::ShowsAgain(reply, asked)) => {
                match asked.fetch_add(1, Ordering::Relaxed) {
                    0 => pending().await,
                    _ => Answer::Find(Ok(reply)),
                }
            }
            (Ask::Find { .. }, Habit::Late(time)) => {
                sleep(time).await;
                found([])
            }
            (Ask::Find { .. }, Habit::Says(reply)) => found(reply.hits),
            (Ask::Find { .. }, Habit::Knows(_) | Habit::OneEach(..) | Habit::Signs(_) | Habit::Far(_)) => {
                found([])
            }
            (Ask::Register { .. } | Ask::Deregister { .. } | Ask::Find { .. }, Habit::Hangs(waiting)) => {
                waiting.fetch_add(1, Ordering::Relaxed);
                scopeguard::defer! { waiting.fetch_sub(1, Ordering::Relaxed); }
                pending().await
            }
            (Ask::Find { .. }, habit) => habit.answer_nothing().await?,
            (Ask::Probe { .. }, Habit::Refuses(refusal)) => return Err(refusal),
            (Ask::Probe { .. }, _) => pending().await,
            (Ask::Invalidate { request }, habit) => {
                let _ = self.told.send(request); // few listen
                if matches!(habit, Habit::NeverAnswers) {
                    return pending().await;
                }
                Answer::Invalidate(Ok(()))
            }
            (Ask::Summarize { news }, _) => {
                let is_heartbeat = news.changes.is_empty();
                let _ = self.summaries.send(news); // few listen
                // The sender is here.
                let _ = self.is_silent.subscribe().wait_for(|is_silent| is_heartbeat || !is_silent).await;
                Answer::Summarize(Ok(SummaryReply { clock_ms: 1, is_taken: true, confirms: 0 }))
            }
            (Ask::Register { .. } | Ask::Renew { .. }, Habit::NeverAnswers) => pending().await,
            (Ask::Register { .. }, _) => {
                let (newer, unlisted) = <_>::default();
                Answer::Register(Ok(RegisterReply { lease: LEASE, newer, unlisted }))
            }
            (Ask::Renew { .. }, habit) => {
                if let Habit::Far(delay) = habit {
                    pass(delay).await;
                }
                Answer::Renew(Ok(LEASE))
            }
            (Ask::Deregister { .. }, _) => Answer::Deregister(Ok(())),
            (Ask::DeregisterAll { .. }, _) => Answer::DeregisterAll(Ok(())),
            (Ask::CallBack { .. }, _) => return Err(Refusal::NotCalled),
        })
    }
}

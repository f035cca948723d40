//! A node that calls itself an indexer: what it does with calls, and what it hears.

use std::{collections::HashMap, future::pending, sync::Arc, time::Duration};

use futures::FutureExt;
use tarpc::context::Context;
use tokio::{
    sync::{Mutex, mpsc, watch},
    time::sleep,
};

use super::junk::Junk;
use crate::service;
use nekoproto::{
    FileName, FindReply, IndexerServiceClient, InvalidateRequest, QueryReply, QueryRequest, Refusal,
    indexer::{IndexerServiceRequest as Ask, IndexerServiceResponse as Answer},
    summary::{SummaryNews, SummaryReply},
    transport::{NodeIo, control, control::Driver},
};

/// What it does with queries. Summaries and heartbeats it confirms.
#[derive(Clone, Debug)]
pub enum Habit {
    /// Answers every query with this.
    Says(QueryReply),
    /// Answers these names with this, and others with nothing; always as complete.
    Knows(Arc<HashMap<FileName, QueryReply>>),
    /// Answers a search by pattern with this, and queries with nothing.
    Shows(FindReply),
    /// Answers with nothing: what goes no further, as probes do, at once, and all else after this time.
    Late(Duration),
    /// Answers each query with records of its own, and searches with nothing.
    Signs(Arc<Junk>),
    /// Answers with nothing, one question after the other, each after this time.
    OneEach(Duration, Arc<Mutex<()>>),
    /// Refuses.
    Refuses(Refusal),
    /// Takes the question and never answers.
    NeverAnswers,
    /// Answers nothing but what goes no further, as probes do.
    AnswersProbes,
    /// Panics in its handler.
    Panics,
}

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
    /// The invalidations that it is told.
    pub told: mpsc::UnboundedReceiver<InvalidateRequest>,
    /// What it is told of names.
    pub summaries: mpsc::UnboundedReceiver<SummaryNews>,
    /// Whether it answers nothing new of that at the moment.
    pub is_silent: watch::Sender<bool>,
}

const fn nothing() -> QueryReply {
    QueryReply {
        hits: nekoproto::List::new(),
        complete: true,
        guests_unheard: false,
        messages: 0,
        trace: None,
    }
}

impl Habit {
    /// Answers everything with nothing, at once.
    #[must_use]
    pub const fn nothing() -> Self {
        Self::Says(nothing())
    }

    /// Answers one query after the other, each after `time`.
    #[must_use]
    pub fn one_each(time: Duration) -> Self {
        Self::OneEach(time, Arc::default())
    }

    async fn answer(self, name: &FileName, ttl_hops: u8) -> Result<QueryReply, Refusal> {
        match self {
            Self::Says(reply) => Ok(reply),
            Self::Knows(replies) => Ok(replies.get(name).cloned().unwrap_or(nothing())),
            Self::Shows(_) => Ok(nothing()),
            Self::Signs(junk) => Ok(junk.reply(name)),
            Self::Late(time) => {
                sleep(if ttl_hops == 0 { Duration::ZERO } else { time }).await;
                Ok(nothing())
            }
            Self::AnswersProbes if ttl_hops == 0 => Ok(nothing()),
            Self::OneEach(time, turn) => {
                let _turn = turn.lock().await;
                sleep(time).await;
                Ok(nothing())
            }
            other => other.answer_nothing().await,
        }
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

impl Pretender {
    /// One with this habit.
    #[must_use]
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
            (Ask::Find { .. }, Habit::Shows(reply)) => Answer::Find(Ok(reply)),
            (Ask::Find { .. }, Habit::Late(time)) => {
                sleep(time).await;
                Answer::Find(Ok(FindReply { complete: true, ..FindReply::default() }))
            }
            (Ask::Find { .. }, Habit::Says(_) | Habit::Knows(_) | Habit::OneEach(..) | Habit::Signs(_)) => {
                Answer::Find(Ok(FindReply { complete: true, ..FindReply::default() }))
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
            _ => return Err(Refusal::WrongRole),
        })
    }
}

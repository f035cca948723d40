//! Asks the network which versions of the names to be published this key has published already, while their
//! files are read: a number is not taken twice where that can be known.

use std::{collections::HashMap, sync::Arc, time::Duration};

use nekoproto::{FileName, VerifiedRecord, limits::BATCH_MAX};
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::JoinHandle, time::timeout};

use crate::indexers::Indexers;

/// How long a publish waits, all in all, for the network to say which versions it knows. Whatever it does not
/// say in time shows when the version is registered.
const ASKING_MAX: Duration = Duration::from_secs(1);
/// The same where the catalogue was lost, and nobody else knows which numbers it gave.
const ASKING_AFTER_LOSS_MAX: Duration = Duration::from_secs(10);

pub(super) struct Asking {
    runtime: Handle,
    indexers: Arc<Indexers>,
    is_lost: bool,
}

pub(super) struct Asked {
    known: Arc<Mutex<HashMap<FileName, VerifiedRecord>>>,
    task: JoinHandle<()>,
}

impl Asking {
    pub(super) fn new(indexers: &Arc<Indexers>) -> Self {
        Self { runtime: Handle::current(), indexers: Arc::clone(indexers), is_lost: false }
    }

    /// Where the catalogue `is_lost`, indexers that were not reached yet are waited for.
    pub(super) fn after_loss(self, is_lost: bool) -> Self {
        Self { is_lost, ..self }
    }

    pub(super) const fn patience(&self) -> Duration {
        if self.is_lost { ASKING_AFTER_LOSS_MAX } else { ASKING_MAX }
    }

    /// Begins to ask for the names `published` before, and for some of the `new` ones: for all of them only if
    /// one turns out to be known, as after the loss of a catalogue.
    pub(super) fn begin(&self, published: Vec<FileName>, new: Vec<FileName>) -> Asked {
        let known = Arc::new(Mutex::new(HashMap::new()));
        let (indexers, answers, is_lost) = (Arc::clone(&self.indexers), Arc::clone(&known), self.is_lost);
        let task = self.runtime.spawn(async move {
            if is_lost {
                indexers.tried().await;
            }
            let (first, others) = new.split_at(new.len().min(BATCH_MAX));
            indexers.ask_own(first, &answers).await;
            let any_known = !answers.lock().is_empty();
            indexers.ask_own(&published, &answers).await;
            if any_known {
                indexers.ask_own(others, &answers).await;
            }
        });
        Asked { known, task }
    }

    /// What the network knows, as far as it answers in time; what is left of `patience` is for the next. Blocking.
    pub(super) fn end(&self, mut asked: Asked, patience: &mut Duration) -> HashMap<FileName, VerifiedRecord> {
        let began = std::time::Instant::now();
        let waiting = async { timeout(*patience, &mut asked.task).await };
        // Late answers are not waited for, and the task fails only when the runtime ends.
        drop(self.runtime.block_on(waiting));
        asked.task.abort();
        *patience = patience.saturating_sub(began.elapsed());
        std::mem::take(&mut asked.known.lock())
    }
}

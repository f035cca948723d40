//! Offers files again whose stamps changed and whose bytes did not, and the word of their origin where they did.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Indexers;
use crate::library::{changed::Compared, events::Event};

/// Pause after a file that is being written.
const UNSETTLED_PAUSE: Duration = Duration::from_secs(1);
/// After a file with other bytes the disk has a rest, of this many times the duration of the comparison: it may have to be
/// compared again and again.
const REST_FACTOR: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(60);

impl Indexers {
    /// Compares the files that changed on disk, one at a time, with what was published.
    pub(super) async fn compare_files(&self) {
        let changed = &self.library.changed;
        let mut last = None;
        loop {
            let Some(name) = changed.next(last.as_ref()) else {
                changed.to_compare.notified().await;
                continue;
            };
            let (began, compared_name) = (Instant::now(), name.clone());
            let compared = self.library.blocking(move |library| library.compare(&compared_name)).await;
            if changed.note_compared(&name, compared) {
                self.library.tell(Event::Changed(name.clone()));
            }
            if compared != Compared::Unsettled {
                self.look_at(vec![name.clone()]).await;
            }
            match compared {
                Compared::Same => {}
                Compared::Differs => sleep((began.elapsed() * REST_FACTOR).min(REST_MAX)).await,
                Compared::Unsettled => sleep(UNSETTLED_PAUSE).await,
            }
            last = Some(name);
        }
    }
}

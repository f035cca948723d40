//! `forget`: forgets a reader that will not come back.

use nekoproto::IdDigits;

use super::{named, prelude::*};
use crate::library::Library;

/// Forget a reader of what is shared here that will not come back: `status` and `wait --all` count it no longer
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Forget {
    /// Its id, or the first ten digits or more of it, as `status NAME` shows them
    #[arg(value_name = "READER", value_parser = named::long_id_digits)]
    reader: IdDigits,
}

impl Api for Forget {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let forget = move |library: &Arc<Library>| library.forget_readers(&self.reader);
        let forgotten = host.peer.library.blocking(forget).await?;
        if forgotten.is_empty() {
            return Err(Failure::missing("no reader has this id: status NAME lists them".to_owned()));
        }
        answer.rows_of(forgotten, |node| node.to_string()).await?;
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        About { shape: Shape::List("forgotten"), ..About::needing(Need::Catalogue) }
    }

    fn view(&self) -> Box<dyn View> {
        Lines::of(|node: String, output| {
            output.text(&format!(
                "{node} is forgotten, until it asks again; it counts as long as its lease lasts"
            ))
        })
    }
}

//! `unshare`: shares names no longer.

use super::{Word, named::expanding::found_here, prelude::*};
use crate::{api::rest::described, publish::WITHDRAWN_AT_ONCE, storage::catalogue::Withdrawal};

/// Share files no longer; they stay on disk, and are not shared again with their folder until they are named
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams, clap::Args)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Unshare {
    /// Their names; FOLDER/ or a glob for all here that match
    #[arg(required = true, value_name = "NAME", value_parser = Word::said)]
    #[param(value_type = Vec<described::Wanted>)]
    #[serde(rename = "name")]
    pub(crate) names: Vec<Word>,
}

impl Api for Unshare {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let all = found_here(&host.peer, self.names, None, answer).await?;
        let (mut is_any, mut failed) = (false, Vec::new());
        for names in all.chunks(WITHDRAWN_AT_ONCE) {
            let mut withdrawn = Vec::with_capacity(names.len());
            for (name, outcome) in host.peer.publisher.deregister(names.to_vec(), Withdrawal::Named).await? {
                match outcome {
                    Ok(()) => withdrawn.push(name),
                    Err(error) => failed.push(FailedRow { name, why: error.into() }),
                }
            }
            is_any |= !withdrawn.is_empty();
            answer.rows_of(withdrawn, |name| name).await?;
        }
        parted(is_any, failed)
    }

    fn about(&self) -> About<'_> {
        About {
            shape: Shape::List("unshared"),
            names: Word::names(&self.names),
            ..About::needing(Need::Catalogue)
        }
    }

    fn view(&self) -> Box<dyn View> {
        Lines::of(|name: String, output| {
            output.text(&format!("{name} is no longer shared; no file was removed"))
        })
    }
}

/// Names that were to be shared no longer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Unshared)]
struct Unshared {
    /// Those that are not; their files stay on disk.
    unshared: Vec<String>,
    /// Those that still are.
    failed: Vec<FailedRow>,
}

route! {
    /// Shares these names no longer; their files stay on disk.
    delete "/api/v1/files" unshare(Unshare) -> Unshared, "What became of them"
}

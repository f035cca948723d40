//! `status`: asks the origins of copies, then lists what is here; of names all that is known.

use super::{
    Ls, Reply, Word,
    ls::{CatalogueJson, LIMIT_DEFAULT, first, list},
    prelude::*,
};
use crate::{api::rest::described, api::views::files::Files, peer::PeerHandle};

/// List what is held here after asking the origins whether it is still the newest; with names, all that is known
/// of these: who reads them and who is behind, which earlier versions are kept
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams, clap::Args)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Only these; FOLDER/ or a glob for all here that match
    #[arg(value_name = "NAME", value_parser = Word::said)]
    #[param(value_type = Vec<described::Wanted>, required = false)]
    #[serde(default, rename = "name")]
    names: Vec<Word>,
    /// At most this many
    #[arg(skip)]
    #[param(minimum = 1, maximum = 10000)]
    #[serde(rename = "limit")]
    first: Option<u32>,
    /// Those after this name
    #[arg(skip)]
    #[param(value_type = Option<Name>)]
    after: Option<FileName>,
}

impl Api for Status {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let Self { names, first, after } = self;
        tell_unreached(&host.peer, answer).await?;
        let first = first.filter(|_| names.is_empty());
        list(&host.peer, true, Ls { names, first, after }, answer).await
    }

    fn about(&self) -> About<'_> {
        About { shape: Shape::List("files"), names: Word::names(&self.names), ..About::needing(Need::Peers) }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<Files>::default()
    }
}

/// Says which indexers are connected and could not connect to this peer.
async fn tell_unreached(peer: &PeerHandle, answer: &Answer) -> Result<(), Failure> {
    for link in peer.indexers.links().into_iter().filter(|link| link.is_connected) {
        if let Some(why) = link.why {
            answer.send(Reply::Note(format!("note: indexer {}: {why}", link.addr))).await?;
        }
    }
    Ok(())
}

route! {
    /// Asks the origins of copies whether they are still the newest, and lists them as the catalogue does.
    get "/api/v1/status" status(Status checked) -> CatalogueJson, "Files"
}

fn checked(_: &Inside, status: Status) -> Result<Status, Problem> {
    let first = match first(status.first)? {
        None if !status.names.is_empty() => None,
        first => first.or(Some(LIMIT_DEFAULT)),
    };
    Ok(Status { first, ..status })
}

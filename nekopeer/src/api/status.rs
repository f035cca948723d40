//! `status`: asks the origins of copies, then lists what is here; of names all that is known.

use super::{
    Ls, Reply, Word, in_one_line,
    ls::{CatalogueJson, LIMIT_DEFAULT, first, list, listed},
    named::expanding::found_here,
    prelude::*,
};
use crate::{api::rest::described, api::views::files::Files, listing::Listing, peer::PeerHandle};

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
        match names.is_empty() {
            true => list(&host.peer, true, Ls { first, after, ..Ls::default() }, answer).await,
            false => {
                let names = found_here(&host.peer, names, None, answer).await?;
                list_of(&host.peer, names, answer).await
            }
        }
    }

    fn about(&self) -> About {
        About { shape: Shape::List("files"), ..About::needing(Need::Peers) }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<Files>::default()
    }

    fn names(&self) -> Vec<&FileName> {
        self.names.iter().filter_map(Word::name).collect()
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

/// Asks the origins of copies, and lists what is shared or held under `names`, with all that is known of each.
async fn list_of(peer: &PeerHandle, names: Vec<FileName>, answer: &Answer) -> Result<Done, Failure> {
    let mut missing = names.clone();
    let mut listing = Listing::of(&peer.library, Some(&peer.peers), names);
    let mut damaged = Vec::new();
    while let Some(files) = listing.next().await? {
        for file in files {
            match file {
                Ok(file) => {
                    missing.retain(|name| *name != file.record.name);
                    let read = peer.reading_of(&file.record.name).await?;
                    let mut row = FileRow::from(&file);
                    row.detail = Some(Detail::of(&file, read));
                    answer.row(&row).await?;
                }
                Err(error) => damaged.push(in_one_line(&error)),
            }
        }
    }
    match missing.first() {
        Some(name) => {
            Err(Failure::missing(format!("{name} is neither shared nor held here: get {name} brings a copy")))
        }
        None => Ok(listed(damaged, None)),
    }
}

/// Asks the origins of copies whether they are still the newest, and lists them as the catalogue does.
#[utoipa::path(
    get,
    path = "/api/v1/status",
    params(Status),
    responses(
        (status = 200, description = "Files", body = CatalogueJson),
        Refused,
    ),
)]
pub(super) async fn status(
    State(inside): State<Arc<Inside>>,
    Asked(status): Asked<Status>,
) -> Result<Response, Problem> {
    let first = match first(status.first)? {
        None if !status.names.is_empty() => None,
        first => first.or(Some(LIMIT_DEFAULT)),
    };
    answered(&inside, Status { first, ..status }).await
}

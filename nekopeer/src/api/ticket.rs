//! `ticket`: makes tickets of what is shared or held here.

use std::collections::BTreeSet;

use nekoproto::NodeId;

use super::{
    Word,
    named::{expanding::found_here, tickets::Tickets},
    prelude::*,
};
use crate::{
    api::rest::described,
    api::views::published::command_of,
    util::qr::{QrFormat, draw},
};

/// Print tickets of files and folders that are shared or held here: what to type elsewhere to get them
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams, clap::Args)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// Their names; FOLDER/ for one ticket of all below it, or a glob
    #[arg(required = true, value_name = "NAME", value_parser = Word::said)]
    #[param(value_type = Vec<described::Wanted>)]
    #[serde(rename = "name")]
    names: Vec<Word>,
    /// Draw each as a QR code too
    #[arg(long)]
    #[param(ignore)]
    #[serde(default)]
    qr: bool,
}

/// What to type elsewhere to get a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Ticket)]
struct TicketRow {
    #[schema(value_type = String)]
    name: FileName,
    ticket: String,
}

impl Api for Ticket {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let peer = &host.peer;
        peer.indexers_tried().await;
        let tickets = Tickets::of(peer).await;
        let (mut is_any, mut failed) = (false, Vec::new());
        let mut asked = Vec::with_capacity(self.names.len());
        for word in self.names {
            let folder = word.folder();
            let names = found_here(peer, vec![word], None, answer).await?;
            match folder.filter(|folder| !names.contains(folder)) {
                Some(folder) => {
                    // Of each origin that has files there.
                    let origin = |name| Some(peer.library.catalogue.get(name)?.record.origin);
                    let origins: BTreeSet<NodeId> = names.iter().filter_map(origin).collect();
                    asked.extend(origins.into_iter().map(|origin| (folder.clone(), Some(origin))));
                }
                None => asked.extend(names.into_iter().map(|name| (name, None))),
            }
        }
        for (name, of_folder) in asked {
            let held = peer.library.catalogue.get(&name);
            let ticket = match (of_folder, held.as_ref().map(|held| &held.record)) {
                (Some(origin), _) => tickets.ticket(&name, origin, None),
                (None, Some(held)) => tickets.ticket(&name, held.origin, Some(held.version)),
                (None, None) => None,
            };
            let outcome = ticket.ok_or_else(|| match of_folder.is_none() && held.is_none() {
                true => Failure::missing(format!("{name} is neither shared nor held here")),
                false => Failure::new(format!("{name}: no indexer is connected that a ticket could name")),
            });
            match outcome {
                Ok(ticket) => {
                    is_any = true;
                    answer.row(&TicketRow { name, ticket }).await?;
                }
                Err(failure) => failed.push(FailedRow { name, why: failure }),
            }
        }
        parted(is_any, failed)
    }

    fn about(&self) -> About<'_> {
        About {
            shape: Shape::List("tickets"),
            names: Word::names(&self.names),
            ..About::needing(Need::Peers)
        }
    }

    fn view(&self) -> Box<dyn View> {
        let as_qr = self.qr;
        Lines::of(move |TicketRow { name, ticket }, output| {
            output.raw_text(&command_of(&ticket))?;
            match draw(&ticket, QrFormat::Terminal) {
                Ok(code) if as_qr => output.raw_text(&code)?,
                Err(_) if as_qr => {
                    output.note(&format!("note: the ticket of {name} is too long for a QR code"));
                }
                _ => {}
            }
            Ok(())
        })
    }
}

/// Tickets.
#[derive(Serialize, ToSchema)]
#[schema(as = Tickets)]
struct Listed {
    tickets: Vec<TicketRow>,
    /// Names that are neither shared nor held here.
    failed: Vec<FailedRow>,
}

route! {
    /// Makes tickets for files that are shared or held here: `nekopeer get TICKET` gets them elsewhere.
    get "/api/v1/ticket" ticket(Ticket) -> Listed, "Tickets"
}

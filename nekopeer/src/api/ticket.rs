//! `ticket`: makes tickets of what is shared or held here.

use super::{named::tickets::Tickets, prelude::*};
use crate::{
    api::views::published::command_of,
    util::qr::{QrFormat, draw},
};

/// Print tickets of files that are shared or held here: what to type elsewhere to get them
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams, clap::Args)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// Their names
    #[arg(required = true, value_name = "NAME")]
    #[param(value_type = Vec<Name>)]
    #[serde(rename = "name")]
    names: Vec<FileName>,
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
        for name in self.names {
            let outcome = match peer.library.catalogue.get(&name).map(|held| held.record.clone()) {
                None => Err(Failure::missing(format!("{name} is neither shared nor held here"))),
                Some(held) => tickets.ticket(&name, held.origin, held.version).ok_or_else(|| {
                    Failure::new(format!("{name}: no indexer is connected that a ticket could name"))
                }),
            };
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

    fn about(&self) -> About {
        About { shape: Shape::List("tickets"), ..About::needing(Need::Peers) }
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

    fn names(&self) -> Vec<&FileName> {
        self.names.iter().collect()
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

//! `trace`: follows a query through the network.

use nekoproto::limits::TTL_DEFAULT;

use super::{prelude::*, views};
use crate::util::json;

/// Show which indexers a query reaches, which it leaves out and why, and how long each takes
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams, clap::Args)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// What to look for
    #[arg(value_name = "NAME")]
    #[param(value_type = Name)]
    name: FileName,
    /// Hops the query may travel beyond the own indexer
    #[arg(long, value_name = "N", default_value_t = TTL_DEFAULT, value_parser = said::ttl())]
    #[param(minimum = 0, maximum = 16)]
    #[serde(default = "json::ttl_default", deserialize_with = "json::ttl")]
    ttl: u8,
}

impl Api for Trace {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let traces = host.peer.trace(&self.name, self.ttl).await?;
        let has_answer = traces.iter().flat_map(|trace| trace.hops.iter()).any(|hop| hop.answer.is_ok());
        let trace = TraceRow::of(&self.name, &traces);
        answer.row(&trace).await?;
        let outcome = match (trace.found, has_answer) {
            (true, _) => Outcome::All,
            (false, true) => Outcome::NotFound,
            (false, false) => Outcome::Nothing,
        };
        Ok(Done { outcome, ..Done::all() })
    }

    fn about(&self) -> About<'_> {
        About { names: vec![&self.name], ..About::needing(Need::Indexer) }
    }

    fn view(&self) -> Box<dyn View> {
        Lines::of(views::trace::show)
    }
}

route! {
    /// Follows a query through the network: which indexers were asked, which were not and why, and how long each took.
    get "/api/v1/trace" trace(Trace) -> TraceRow, "The tree of indexers that were asked"
}

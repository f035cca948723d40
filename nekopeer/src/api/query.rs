//! `query`: asks the network who has exact names.

use nekoproto::limits::TTL_DEFAULT;

use super::{named, prelude::*};
use crate::{api::rest::framed, api::views::hits::Hits, util::json};

/// Ask the network who has an exact name
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams, clap::Args)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// What to look for
    #[arg(required = true, value_name = "NAME")]
    #[param(value_type = Vec<Name>)]
    #[serde(rename = "name")]
    pub(crate) names: Vec<FileName>,
    /// Hops the query may travel beyond the own indexer
    #[arg(long, value_name = "N", default_value_t = TTL_DEFAULT, value_parser = said::ttl())]
    #[param(minimum = 0, maximum = 16)]
    #[serde(default = "json::ttl_default", deserialize_with = "json::ttl")]
    pub(crate) ttl: u8,
}

impl Api for Query {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let answers = named::search(&host.peer, &self.names, Some(self.ttl)).await?;
        let found: Vec<_> = self.names.into_iter().zip(answers).collect();
        let is_missing = |(_, found): &(FileName, _)| FoundRow::of_none(found);
        let outcome = if found.iter().any(is_missing) { Outcome::NotFound } else { Outcome::All };
        answer.rows_of(&found, |(name, found)| FoundRow::of(name, found)).await?;
        Ok(Done { outcome, ..Done::all() })
    }

    fn about(&self) -> About {
        About {
            shape: if self.names.len() == 1 { Shape::Object } else { Shape::List("answers") },
            ..About::needing(Need::Indexer)
        }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<Hits>::default()
    }

    fn names(&self) -> Vec<&FileName> {
        self.names.iter().collect()
    }
}

/// What was found.
#[derive(Serialize, ToSchema)]
#[schema(as = Answers)]
struct Answers {
    /// One for each name, in order.
    answers: Vec<FoundRow>,
}

/// Asks the network who has files of these names.
#[utoipa::path(
    get,
    path = "/api/v1/query",
    params(Query),
    responses(
        (status = 200, description = "Who has what; a name that nobody has is without hits", body = Answers),
        Refused,
    ),
)]
pub(super) async fn query(
    State(inside): State<Arc<Inside>>,
    Asked(query): Asked<Query>,
) -> Result<Response, Problem> {
    framed(&inside, query, Shape::List("answers")).await // also of one name
}

//! `query`: asks the network who has exact names.

use nekoproto::limits::TTL_DEFAULT;

use super::{
    Reply, Word,
    named::{
        self,
        expanding::{Among, Listed, found_there, matched},
    },
    prelude::*,
};
use crate::{
    api::views::hits::Hits,
    api::{
        Framed, no_input,
        rest::{described, sent},
    },
    indexers::via::Via,
    util::json,
};

/// Names that nobody shares of which it is asked whether they are folders.
const FOLDERS_TRIED_MAX: usize = 64;

/// Ask the network who has an exact name
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams, clap::Args)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// What to look for; FOLDER/ or a glob for all that match
    #[arg(required = true, value_name = "NAME", value_parser = Word::said)]
    #[param(value_type = Vec<described::Wanted>)]
    #[serde(rename = "name")]
    pub(crate) names: Vec<Word>,
    /// Hops the query may travel beyond the own indexer
    #[arg(long, value_name = "N", default_value_t = TTL_DEFAULT, value_parser = said::ttl())]
    #[param(minimum = 0, maximum = 16)]
    #[serde(default = "json::ttl_default", deserialize_with = "json::ttl")]
    pub(crate) ttl: u8,
}

impl Api for Query {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let (peer, via) = (&host.peer, Via::default());
        let network = (self.ttl, &via);
        let mut listed: Vec<Listed> = Vec::new();
        for word in &self.names {
            match word.name() {
                Some(name) => listed.push((name.clone(), None)),
                None => listed.extend(found_there(peer, &word.pattern(), network, answer).await?),
            }
        }
        let unknown = listed.iter().filter(|(_, found)| found.is_none()).map(|(name, _)| name.clone());
        let unknown: Vec<FileName> = unknown.collect();
        let mut answers = named::search(peer, &unknown, self.ttl).await?.into_iter();
        let answered = |(name, found): Listed| Some((name, found.or_else(|| answers.next())?));
        let mut found: Vec<_> = listed.into_iter().filter_map(answered).collect();
        let is_missing = |(_, found): &(FileName, _)| FoundRow::of_none(found);
        // A folder may have been named without its slash.
        let missing = (0..found.len()).rev().filter(|at| is_missing(&found[*at]));
        for at in missing.take(FOLDERS_TRIED_MAX).collect::<Vec<_>>() {
            let folder = Word::Name(found[at].0.clone()).pattern();
            let below = matched(peer, &folder, Among::Network(self.ttl, &via), None).await?;
            if !below.is_empty() {
                found.splice(at..=at, below);
            }
        }
        if found.first().map(|(name, _)| name) != self.names.first().and_then(Word::name) {
            answer.send(Reply::Many).await?;
        }
        let outcome = if found.iter().any(is_missing) { Outcome::NotFound } else { Outcome::All };
        answer.rows_of(&found, |(name, found)| FoundRow::of(name, found)).await?;
        Ok(Done { outcome, ..Done::all() })
    }

    fn about(&self) -> About<'_> {
        About {
            shape: match self.names.as_slice() {
                [word] if word.name().is_some() => Shape::ObjectOr("answers"),
                _ => Shape::List("answers"),
            },
            names: Word::names(&self.names),
            ..About::needing(Need::Indexer)
        }
    }

    fn view(&self) -> Box<dyn View> {
        Box::<Hits>::default()
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
    let answers = Framed::new(Shape::List("answers")); // also of one name
    sent(inside.carry_out(query, no_input())?, answers).await
}

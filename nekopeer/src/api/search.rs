//! `search`: finds files by words, patterns and filters.

use nekoindexer::state::find::Matcher;
use nekoproto::{
    IdDigits, Position, Search as Sought, Term, Terms,
    clock::unix_ms,
    limits::{FOUND_MAX, TERMS_MAX, TTL_DEFAULT},
};
use serde_json::json;

use super::{
    named::{id_digits, split},
    prelude::*,
};
use crate::{
    api::views::matches::MatchesView, library::status::FileStatus, peer::PeerHandle,
    state::choice::Candidate, terminal::units, util::json,
};

pub(crate) const MATCHES_DEFAULT: u32 = 50;
pub(crate) const MATCHES_MAX: u32 = 10_000;

/// Find files in the network by words or globs
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Search {
    /// A name; words that must all occur in a name, in upper or lower case; or globs: `*.bin` is about the last part
    /// of a name, `models/*.bin` about all of it, and `**` stands for any folders
    #[arg(value_name = "TERM")]
    pub(crate) terms: Vec<String>,
    /// Only files of at least this size, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    min_size: Option<u64>,
    /// Only files shared since then: 2h, 3d or a date such as 2026-11-01
    #[arg(long, value_name = "AGE", value_parser = units::since)]
    newer_than: Option<u64>,
    /// Only files of this origin: the first digits of its id
    #[arg(long, value_name = "ID", value_parser = id_digits)]
    origin: Option<String>,
    /// Hops the search may travel beyond the own indexer [default: 3]
    #[arg(long, value_name = "N", conflicts_with = "here", value_parser = said::ttl())]
    pub(crate) ttl: Option<u8>,
    /// Ask the own indexer only
    #[arg(long)]
    here: bool,
    /// At most this many files
    #[arg(long, value_name = "N", default_value_t = MATCHES_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MATCHES_MAX)))]
    pub(crate) limit: u32,
    /// Go on where the search before ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<Position>,
}

impl Search {
    /// At most `limit` names of the own indexers that match this glob.
    pub(crate) fn near(glob: String, limit: u32) -> Self {
        Self { terms: vec![glob], here: true, limit, ..Self::default() }
    }

    pub(crate) fn checked(&self) -> Result<Sought, String> {
        if self.terms.len() > TERMS_MAX {
            return Err(format!("a search has at most {TERMS_MAX} terms"));
        }
        let named = match self.terms.as_slice() {
            [word] if self.origin.is_none() => FileName::new(word).ok().as_ref().map(split),
            _ => None,
        };
        let (words, origin) = match named {
            Some((name, origin @ Some(_))) => (vec![name.to_string()], origin), // NAME@ID
            _ => (self.terms.clone(), self.origin.clone()),
        };
        let term = |word: &String| Term::new(word).map_err(|error| format!("'{word}': {error}"));
        let terms = words.iter().map(term).collect::<Result<Vec<_>, _>>()?;
        let origin = origin.map(|digits| IdDigits::try_from(digits.to_ascii_lowercase()));
        let origin = origin.transpose().map_err(|error| error.to_string())?;
        let min_size = self.min_size.unwrap_or_default();
        let published_from_ms = self.newer_than.unwrap_or_default();
        let is_plain = min_size == 0 && published_from_ms == 0 && origin.is_none();
        if terms.is_empty() && is_plain {
            return Err("say what to look for: a name, words, a glob or a filter".to_owned());
        }
        let search = Sought { terms: Terms::first_of(terms), min_size, published_from_ms, origin };
        Matcher::new(&search).map_err(|error| error.to_string().replace("error parsing glob", "the glob"))?;
        Ok(search)
    }

    fn ttl_hops(&self) -> u8 {
        if self.here { 0 } else { self.ttl.unwrap_or(TTL_DEFAULT) }
    }
}

impl Api for Search {
    /// Answers with a row for each match, by name, and where further ones begin.
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let (peer, ttl_hops) = (&host.peer, self.ttl_hops());
        let search = self.checked().map_err(Failure::invalid)?;
        let name = search.terms.iter().map(Term::as_str).collect::<Vec<_>>().join(" ");
        let mut all = Matches { name, complete: true, ..Matches::default() };
        let mut after = self.after;
        let (mut left, mut shown, mut looked_at) = (self.limit.clamp(1, MATCHES_MAX) as usize, 0, 0);
        loop {
            // Names that are withdrawn fill no answer: further pages do.
            let asked = if looked_at == 0 { left.min(FOUND_MAX) } else { FOUND_MAX };
            let found = peer.find(&search, after.as_ref(), asked, ttl_hops).await?;
            all.complete &= found.complete;
            all.guests_unheard |= found.guests_unheard;
            all.indexers = all.indexers.or_worse(&found);
            let listed = found.matches.len();
            looked_at += listed;
            after = found.next;
            let files = found.matches.into_iter().filter(|found| !found.record.is_withdrawal());
            let mut files: Vec<Candidate> = files.collect();
            if files.len() > left {
                files.truncate(left);
                after = files.last().map(|last| Position::of(&last.record));
            }
            left -= files.len();
            shown += show(peer, files, answer).await?;
            let is_short = listed < asked; // the time was over, or some were not the newest
            let is_over = left == 0 || after.is_none() || looked_at >= MATCHES_MAX as usize;
            if is_over || is_short && (shown > 0 || listed == 0) {
                break;
            }
        }
        all.next = after.map(|next| next.to_string());
        let outcome = if shown > 0 { Outcome::All } else { Outcome::NotFound };
        Ok(Done::with(outcome, &json!(all))) // in the order of the keys
    }

    fn said(self, _: Saying) -> Result<Command, NoCommand> {
        self.checked().map_err(NoCommand::usage)?;
        Ok(self.into())
    }

    fn about(&self) -> About<'_> {
        About { shape: Shape::List("hits"), ..About::needing(Need::Indexer) }
    }

    fn view(&self) -> Box<dyn View> {
        Box::new(MatchesView::of(self.terms.join(" "), self.ttl_hops() == 0))
    }
}

async fn show(peer: &PeerHandle, matches: Vec<Candidate>, answer: &Answer) -> Result<usize, Failure> {
    let names = matches.iter().map(|found| found.record.name.clone()).collect();
    let held = peer.held(names).await;
    let row = |(found, held): (&Candidate, Option<FileStatus>)| {
        let held = held.filter(|held| held.record.origin == found.record.origin);
        MatchRow::of(found, held.as_ref())
    };
    answer.rows_of(matches.iter().zip(held), row).await?;
    Ok(matches.len())
}

route! {
    /// Looks for files by words, globs and filters, all of which must match.
    get "/api/v1/search" search(Words checked) -> Matches, "Matches, by name"
}

fn checked(_: &Inside, words: Words) -> Result<Search, Problem> {
    let now_ms = unix_ms();
    if !(1..=MATCHES_MAX).contains(&words.limit) {
        return Err(Problem::bad_request(format!("limit is a number from 1 to {MATCHES_MAX}")));
    }
    let after = words.after.as_deref().map(str::parse::<Position>).transpose();
    let after = after.map_err(|_| Problem::not_found("no answer had this \"next\" to go on from"))?;
    Ok(Search {
        terms: words.q.split_whitespace().map(str::to_owned).collect(),
        min_size: words.min_size,
        newer_than: words.newer_than_secs.map(|secs| now_ms.saturating_sub(secs.saturating_mul(1000))),
        origin: words.origin,
        ttl: Some(words.ttl),
        here: false,
        limit: words.limit,
        after,
    })
}

/// What is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Words {
    /// Words and globs, with spaces between them
    #[serde(default)]
    #[param(required = false)]
    q: String,
    /// Hops beyond the own indexers
    #[param(minimum = 0, maximum = 16)]
    #[serde(default = "json::ttl_default", deserialize_with = "json::ttl")]
    ttl: u8,
    /// The least size in bytes
    #[param(maximum = 9007199254740991u64)]
    min_size: Option<u64>,
    /// The largest age in seconds
    #[param(maximum = 9007199254740991u64)]
    newer_than_secs: Option<u64>,
    /// The first digits of the origin's id
    #[param(pattern = "^[0-9a-fA-F]{1,64}$")]
    origin: Option<String>,
    /// Matches in this answer, at most
    #[param(minimum = 1, maximum = 10000)]
    #[serde(default = "matches_default")]
    limit: u32,
    /// The `next` of the answer before
    after: Option<String>,
}

const fn matches_default() -> u32 {
    MATCHES_DEFAULT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(terms: &[&str]) -> Search {
        let terms = terms.iter().map(ToString::to_string).collect();
        Search { terms, limit: MATCHES_DEFAULT, ..Search::default() }
    }

    #[test]
    fn search_goes_as_far_as_a_query_unless_told() {
        let far = |ttl, here| Search { ttl, here, ..search(&["*.bin"]) }.ttl_hops();
        assert_eq!([far(None, false), far(Some(2), false), far(None, true)], [TTL_DEFAULT, 2, 0]);
        assert!(Search { min_size: Some(1), ..search(&[]) }.checked().is_ok());
    }

    #[test]
    fn what_cannot_be_searched_for_is_said() {
        for (words, part) in [(&["a\n"][..], "control"), (&["a"; TERMS_MAX + 1], "at most 16")] {
            assert!(search(words).checked().unwrap_err().contains(part), "{words:?}");
        }
    }
}

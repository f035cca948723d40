//! Names that are listed and look like one that nobody offers.

use nekoproto::{FileName, Search, Term, Terms, limits::FOUND_MAX};

use super::escaped;
use crate::peer::PeerHandle;

/// Letters at the beginning of a name that are taken to be right.
const RIGHT_LETTERS: usize = 2;
/// How alike two names are at least, of 1.
const ALIKE_MIN: f64 = 0.85;

/// A glob for a letter, small or capital.
fn in_either_case(letter: char) -> String {
    match letter.to_uppercase().collect::<Vec<_>>()[..] {
        [capital] if capital != letter => format!("[{letter}{capital}]"),
        _ => escaped(&letter.to_string()),
    }
}

/// The name most like `name` among those that indexers within `ttl_hops` list and that begin as it does.
pub(in crate::api) async fn similar(peer: &PeerHandle, name: &FileName, ttl_hops: u8) -> Option<FileName> {
    let last =
        |name: &FileName| name.as_path().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let wrong = last(name);
    let begin: String = wrong.chars().take(RIGHT_LETTERS).map(in_either_case).collect();
    let term = Term::new(&format!("{begin}*")).ok()?;
    let search = Search { terms: Terms::first_of([term]), min_size: 0, published_from_ms: 0, origin: None };
    let found = peer.find(&search, None, FOUND_MAX, ttl_hops).await.ok()?;
    let names = found.matches.into_iter().filter(|found| !found.record.is_withdrawal());
    let alike = names
        .map(|found| (strsim::jaro_winkler(&wrong, &last(&found.record.name)), found.record.name.clone()));
    let best = alike
        .filter(|(alike, other)| *alike >= ALIKE_MIN && other != name)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name)
}

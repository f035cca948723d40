//! [`Matcher`]: whether a name matches all terms of a search.

use caseless::Caseless as _;
use globset::{Candidate, GlobBuilder, GlobSet};
use memchr::{memchr2, memmem::Finder};
use nekoproto::{Search, limits::NAME_BYTES_MAX};
use unicode_normalization::{UnicodeNormalization as _, char::canonical_combining_class};

/// Bytes of all globs of a search: one of them may be as long as a name. Comparing one name with so many takes
/// milliseconds.
const GLOBS_BYTES_MAX: usize = NAME_BYTES_MAX;
/// Bytes of terms that names are compared with between two looks at the clock.
const BYTES_AT_ONCE: usize = 4096;

/// The terms of a search, ready to be compared with a million names.
///
/// A word matches a name that contains it, in upper or lower case, with or without accents; one without letters, as it is. A
/// glob is compared with the whole name if it has a
/// `/`, with the last component otherwise; its `*` and `?` match no `/`, its `**` does. `?` and `[..]` stand for one byte.
#[derive(Debug)]
pub struct Matcher {
    words: Vec<Word>,
    globs: Vec<Glob>,
    needle: Option<Finder<'static>>,
    names_at_once: usize,
}

/// A glob that cannot be read, or too many of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPattern(String);

impl Matcher {
    /// For the terms of `search`. Takes up to a millisecond.
    ///
    /// # Errors
    /// A glob cannot be read, or they are too long.
    pub fn new(search: &Search) -> Result<Self, BadPattern> {
        let (globs, words): (Vec<_>, Vec<_>) = search.terms.iter().partition(|term| term.is_glob());
        if globs.iter().map(|glob| glob.as_str().len()).sum::<usize>() > GLOBS_BYTES_MAX {
            return Err(BadPattern(format!("globs have at most {GLOBS_BYTES_MAX} bytes together")));
        }
        let bytes: usize = search.terms.iter().map(|term| term.as_str().len()).sum();
        let parts = globs.iter().flat_map(|term| {
            let (start, end) = ends(term.as_str());
            [start, end, inside(term.as_str())]
        });
        let parts = parts.chain(words.iter().map(|term| term.as_str()).filter(|word| has_no_letters(word)));
        let needle = parts.max_by_key(|part| part.len()).filter(|part| !part.is_empty());
        Ok(Self {
            names_at_once: (BYTES_AT_ONCE / bytes.max(1)).max(1),
            needle: needle.map(|part| Finder::new(part.as_bytes()).into_owned()),
            words: words.into_iter().map(|term| Word::new(term.as_str())).collect(),
            globs: globs.into_iter().map(|term| Glob::new(term.as_str())).collect::<Result<_, _>>()?,
        })
    }

    /// Finds the longest part that each name that matches has, if there is one: among many names at once it is found
    /// faster than the names are compared one by one.
    #[must_use]
    pub const fn needle(&self) -> Option<&Finder<'static>> {
        self.needle.as_ref()
    }

    /// How many names may be compared before somebody looks at the clock again.
    #[must_use]
    pub const fn names_at_once(&self) -> usize {
        self.names_at_once
    }

    /// Whether all terms match `name`, which is UTF-8, and maybe known to be ASCII.
    #[must_use]
    pub fn matches(&self, name: &[u8], is_ascii: bool) -> bool {
        self.words.iter().all(|word| word.is_in(name, is_ascii))
            && self.globs.iter().all(|glob| glob.matches(name))
    }
}

fn has_no_letters(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_alphabetic())
}

/// `text` without case, accents, and what chooses a variant of a letter or joins it to the next.
fn folded(text: &str) -> String {
    let is_kept = |c: &char| {
        canonical_combining_class(*c) == 0 && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
    };
    text.nfkd().filter(is_kept).default_case_fold().collect()
}

/// A folded word, and its first byte in both cases.
#[derive(Debug)]
struct Word {
    folded: String,
    first: [u8; 2],
    has_letters: bool,
}

impl Word {
    fn new(text: &str) -> Self {
        let folded =
            Some(folded(text)).filter(|folded| !folded.is_empty()).unwrap_or_else(|| text.to_owned());
        let first = folded.as_bytes().first().copied().unwrap_or_default();
        Self { folded, first: [first, first.to_ascii_uppercase()], has_letters: !has_no_letters(text) }
    }

    fn is_in(&self, name: &[u8], is_ascii: bool) -> bool {
        if self.folded.is_ascii() && self.is_in_ascii(name) {
            return true;
        }
        // Other names are few.
        let is_other = !is_ascii && self.has_letters && !name.is_ascii();
        is_other && str::from_utf8(name).is_ok_and(|name| folded(name).contains(&self.folded))
    }

    fn is_in_ascii(&self, mut name: &[u8]) -> bool {
        let (word, [lower, upper]) = (self.folded.as_bytes(), self.first);
        while let Some(at) = memchr2(lower, upper, name) {
            match name.get(at..at + word.len()) {
                Some(here) if here.eq_ignore_ascii_case(word) => return true,
                Some(_) => name = &name[at + 1..],
                None => return false,
            }
        }
        false
    }
}

/// A glob, and literal parts that a name must have: comparing these takes a tenth of the time.
#[derive(Debug)]
struct Glob {
    matcher: GlobSet,
    /// It is compared with the last component.
    of_last: bool,
    start: Box<[u8]>,
    end: Box<[u8]>,
}

impl Glob {
    fn new(text: &str) -> Result<Self, BadPattern> {
        // A set of one: unlike a single glob it is an error, and no panic, if the pattern is too deep.
        let built = GlobBuilder::new(text).literal_separator(true).build();
        let matcher = built.and_then(|glob| GlobSet::builder().add(glob).build());
        let matcher = matcher.map_err(|error| BadPattern(error.to_string()))?;
        let (start, end) = ends(text);
        Ok(Self {
            matcher,
            of_last: !text.contains('/'),
            start: start.as_bytes().into(),
            end: end.as_bytes().into(),
        })
    }

    fn matches(&self, name: &[u8]) -> bool {
        if !name.ends_with(&self.end) {
            return false;
        }
        let name = match name.iter().rposition(|byte| *byte == b'/') {
            Some(slash) if self.of_last => &name[slash + 1..],
            _ => name,
        };
        name.starts_with(&self.start) && self.matcher.is_match_candidate(&Candidate::from_bytes(name))
    }
}

/// What every match begins and ends with.
fn ends(glob: &str) -> (&str, &str) {
    if glob.contains('\\') {
        return ("", "");
    }
    let start = glob.find(['*', '?', '[', '{']).unwrap_or(glob.len());
    let end = glob.rfind(['*', '?', ']', '}']).map_or(0, |last| last + 1);
    // The slash after `**` need not be there.
    let last = if glob[..end].ends_with("**") { glob[end..].trim_start_matches('/') } else { &glob[end..] };
    (&glob[..start], last)
}

/// The longest part that every match contains, as far as it can be told.
fn inside(glob: &str) -> &str {
    if glob.contains('\\') || ["[]", "[!]", "[^]"].iter().any(|odd| glob.contains(odd)) {
        return "";
    }
    let plain = glob.find(['{', '}']).map_or(glob, |first| &glob[..first]);
    let parts = plain.split('[').enumerate().map(|(n, part)| match part.split_once(']') {
        Some((_, behind)) if n > 0 => behind,
        None if n > 0 => "", // the class goes on behind
        _ => part,
    });
    let parts = parts.flat_map(|part| part.split(['*', '?'])).map(|part| part.trim_matches('/'));
    parts.max_by_key(|part| part.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use nekoproto::{Term, Terms, limits::TERM_BYTES_MAX};
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    fn search(terms: &[&str]) -> Search {
        let terms = terms.iter().map(|term| Term::new(term).unwrap());
        Search { terms: Terms::first_of(terms), ..Search::default() }
    }

    fn matching<'a>(terms: &[&str], names: &[&'a str]) -> Vec<&'a str> {
        let matcher = Matcher::new(&search(terms)).unwrap();
        names.iter().copied().filter(|name| matcher.matches(name.as_bytes(), false)).collect()
    }

    const NAMES: [&str; 9] = [
        "cuda-12.4.run",
        "data/CUDA 12/notes.txt",
        "models/a.bin",
        "models/b.BIN",
        "models/large/c.bin",
        "models/large/c.bin.old",
        "Überblick.txt",
        "straße/x.bin",
        "x",
    ];

    #[test]
    fn words_must_all_occur_in_any_case() {
        assert_eq!(matching(&["cuda", "12"], &NAMES), NAMES[..2]);
        assert_eq!(matching(&["Cuda", "TXT"], &NAMES), NAMES[1..2]);
        assert_eq!(matching(&["überBLICK"], &NAMES), NAMES[6..7]);
        assert_eq!(matching(&["cudacuda"], &NAMES), [""; 0]);
        assert_eq!(matching(&["x"], &["xx", "aaX", "y"]), ["xx", "aaX"]);
        assert_eq!(matching(&["aab"], &["aaab", "AAAB", "aa", "b"]), ["aaab", "AAAB"]);
    }

    #[test]
    fn words_are_found_without_case_and_accents_whatever_form_a_name_has() {
        let names =
            ["Übung.txt", "U\u{308}BUNG", "ubung", "Straße", "ΟΔΟΣ", "ｆｕｌｌ", "مي\u{200c}خ", "12\u{301}3"];
        for (word, found) in [
            ("ubung", &names[..3]),
            ("ÜBUNG", &names[..3]),
            ("strasse", &names[3..4]),
            ("οδος", &names[4..5]),
            ("full", &names[5..6]),
            ("ميخ", &names[6..7]),
            ("\u{301}", &[]),
            ("123", &[]),
        ] {
            assert_eq!(matching(&[word], &names), found, "{word}");
        }
    }

    #[test]
    fn globs_are_of_the_last_component_or_of_the_whole_name() {
        assert_eq!(matching(&["*.bin"], &NAMES), ["models/a.bin", "models/large/c.bin", "straße/x.bin"]);
        assert_eq!(matching(&["models/*.bin"], &NAMES), ["models/a.bin"]);
        assert_eq!(matching(&["models/**/*.bin"], &NAMES), ["models/a.bin", "models/large/c.bin"]);
        assert_eq!(matching(&["models/**"], &NAMES), NAMES[2..6]);
        assert_eq!(matching(&["**/x*"], &NAMES), ["straße/x.bin", "x"]);
        assert_eq!(matching(&["**/c.bin"], &NAMES), ["models/large/c.bin"]);
        assert_eq!(matching(&["models/?.{bin,BIN}"], &NAMES), NAMES[2..4]);
        assert_eq!(matching(&["[ab].bin"], &NAMES), ["models/a.bin"]);
        assert_eq!(matching(&["*"], &NAMES), NAMES);
        assert_eq!(matching(&["*.bin*", "large"], &NAMES), NAMES[4..6]);
        assert_eq!(matching(&["\\[x\\]*"], &["[x]y", "x"]), ["[x]y"]);
    }

    /// Goal: the literal parts leave out nothing that the glob alone takes.
    /// Method: random globs and names over few letters.
    #[test]
    fn literal_parts_leave_out_nothing() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut text = |letters: &[u8], most: usize| -> String {
            let len = rng.random_range(1..=most);
            (0..len).map(|_| char::from(letters[rng.random_range(0..letters.len())])).collect()
        };
        let (mut compared, mut matched) = (0, 0);
        while compared < 500 {
            let pattern = text(b"ab/**?[]{,}", 8);
            let Ok(glob) = Glob::new(&pattern) else { continue };
            for name in (0..200).map(|_| text(b"aab/", 7)) {
                let of = if glob.of_last { name.rsplit('/').next().unwrap() } else { &name };
                let alone = glob.matcher.is_match_candidate(&Candidate::from_bytes(of));
                assert_eq!(glob.matches(name.as_bytes()), alone, "{pattern:?} {name:?}");
                assert!(!alone || name.contains(inside(&pattern)), "{pattern:?} {name:?}");
                let (start, end) = ends(&pattern);
                assert!(!alone || name.contains(start) && name.contains(end), "{pattern:?} {name:?}");
                matched += usize::from(alone);
            }
            compared += 1;
        }
        assert!(matched > 1000, "{matched}");
    }

    #[test]
    fn globs_that_cannot_be_read_are_errors() {
        for wrong in ["[a", "{a", "a{b,", "*[z-a]", "{{a}"] {
            let error = Matcher::new(&search(&[wrong])).unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn hostile_patterns_cost_little() {
        let fit = |piece: &str| piece.repeat(GLOBS_BYTES_MAX / piece.len());
        assert!(Matcher::new(&search(&[&fit("*a"), "*"])).is_err(), "too long together");
        let nested = format!("{}a{}", "{".repeat(TERM_BYTES_MAX / 2 - 1), "}".repeat(TERM_BYTES_MAX / 2 - 1));
        let name = format!("{}b", "a/a".repeat(340));
        let began = Instant::now();
        for pattern in [fit("*a"), fit("**/"), fit("?*"), fit("{a,b}*"), fit("[!b]*"), fit("*"), nested] {
            let Ok(matcher) = Matcher::new(&search(&[&pattern])) else { continue };
            let matched = (0..100).filter(|_| matcher.matches(name.as_bytes(), false)).count();
            assert!(matched == 0 || matched == 100);
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }

    /// What names are searched by is found in every name that matches.
    #[test]
    fn search_patterns() {
        testkit::fuzz("search_patterns", |bytes: &[u8]| {
            let Some((len, rest)) = bytes.split_first() else { return };
            let (pattern, name) = rest.split_at(usize::from(*len).min(rest.len()));
            let (Ok(pattern), Ok(name)) = (str::from_utf8(pattern), str::from_utf8(name)) else { return };
            let terms = pattern.split(' ').filter_map(|term| Term::new(term).ok());
            let search = Search { terms: Terms::first_of(terms), ..Search::default() };
            let Ok(matcher) = Matcher::new(&search) else { return };
            if matcher.matches(name.as_bytes(), false) {
                let is_there = matcher.needle().is_none_or(|needle| needle.find(name.as_bytes()).is_some());
                assert!(is_there, "{pattern:?} {name:?}");
            }
        });
    }
}

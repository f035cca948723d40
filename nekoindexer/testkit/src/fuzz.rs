//! A fuzz target takes the inputs that libFuzzer makes under `.ci/fuzz`, and those of its corpus and 1000 changed ones
//! under `cargo test`.
//!
//! A corpus is the file `corpus/TARGET.txt` of this crate, one input a line: printable ASCII as it is, every other byte,
//! the backslash and a last space as `\xNN`.

use std::panic::AssertUnwindSafe;

#[cfg(fuzzing)]
pub fn fuzz(_target: &str, check: impl Fn(&[u8])) {
    let check = AssertUnwindSafe(check);
    bolero::check!().for_each(|input: &[u8]| {
        let check: &AssertUnwindSafe<_> = &check;
        check(input);
    });
}

/// Runs the fuzz target. `target` is the name of its test and of its corpus; `check` panics at an input that is handled
/// wrongly.
///
/// # Panics
/// If `check` does. The message has the line for the corpus.
#[cfg(not(fuzzing))]
pub fn fuzz(target: &str, check: impl Fn(&[u8])) {
    for input in replay::inputs(target) {
        let checked = std::panic::catch_unwind(AssertUnwindSafe(|| check(&input)));
        assert!(checked.is_ok(), "{target} fails at the input {}", replay::line(&input));
    }
}

#[cfg(not(fuzzing))]
mod replay {
    use std::{fs, iter};

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    const CHANGED_INPUTS: usize = 1000;

    /// The empty input, the corpus, and changed inputs, the same in each run.
    pub(super) fn inputs(target: &str) -> impl Iterator<Item = Vec<u8>> {
        let path = format!("{}/corpus/{target}.txt", env!("CARGO_MANIFEST_DIR"));
        let lines = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let corpus: Vec<_> = iter::once("").chain(lines.lines()).map(input).collect();
        let mut random = StdRng::seed_from_u64(0);
        let changed = (0..CHANGED_INPUTS).map(|_| changed(&corpus, &mut random)).collect::<Vec<_>>();
        corpus.into_iter().chain(changed)
    }

    /// One of the inputs after 1 to 4 changes, of which each puts up to 4 bytes in the place of up to 4.
    fn changed(corpus: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
        let mut input = corpus[random.random_range(0..corpus.len())].clone();
        for _ in 0..random.random_range(1..=4) {
            let start = random.random_range(0..=input.len());
            let end = random.random_range(start..=input.len().min(start + 4));
            let bytes: [u8; 4] = random.random();
            input.splice(start..end, bytes.into_iter().take(random.random_range(0..=4)));
        }
        input
    }

    fn input(line: &str) -> Vec<u8> {
        let mut parts = line.split(r"\x");
        let first = parts.next().unwrap_or_default();
        let others = parts.flat_map(|part| {
            let (hex, plain) = part.split_at(2);
            iter::once(u8::from_str_radix(hex, 16).unwrap()).chain(plain.bytes())
        });
        first.bytes().chain(others).collect()
    }

    pub(super) fn line(input: &[u8]) -> String {
        let bytes = input.iter().map(|byte| match byte {
            b'\\' => r"\x5c".to_owned(),
            b' '..=b'~' => char::from(*byte).to_string(),
            _ => format!(r"\x{byte:02x}"),
        });
        bytes.collect()
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn a_line_is_its_input() {
            let input: Vec<u8> = (0..=255).collect();
            assert_eq!(super::input(&super::line(&input)), input);
            assert_eq!(super::input(r"a\x5cx41\x0a b\x20"), b"a\\x41\n b ");
        }
    }
}

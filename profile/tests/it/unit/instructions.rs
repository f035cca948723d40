//! Tests of `instructions.rs`.

use profile::instructions::*;

fn counts(numbers: &[(&str, f64)]) -> Counts {
    let instructions = numbers.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    Counts { arch: "x".to_owned(), rustc: String::new(), instructions }
}

#[test]
fn both_forms_of_the_count_are_read() {
    assert_eq!(parse_count("==7== \n==7== I   refs:      1,234,567\n"), Some(1_234_567));
    assert_eq!(parse_count("==7== I refs:        89\n"), Some(89));
    assert_eq!(parse_count("==7== D   refs:  1\n"), None);
}

#[test]
fn more_than_recorded_is_off_and_fewer_is_noted() {
    let recorded = counts(&[("a", 100.0), ("b", 100.0)]);
    let off = |a, b| judge(&recorded, &counts(&[("a", a), ("b", b)]), 0.05).unwrap().1.len();
    assert_eq!((off(100.0, 104.0), off(100.0, 106.0), off(90.0, 106.0)), (0, 1, 1));
    assert!(
        judge(&recorded, &counts(&[("a", 90.0), ("b", 100.0)]), 0.05)
            .unwrap()
            .0
            .to_string()
            .contains("fewer")
    );
    let one = judge(&recorded, &counts(&[("a", 100.0), ("c", 1.0)]), 0.05).unwrap();
    assert_eq!(one.1.len(), 2, "{:?}", one.1);
    let elsewhere = Counts { arch: "y".to_owned(), ..recorded.clone() };
    assert!(judge(&recorded, &elsewhere, 0.05).is_err());
}

//! Tests of `compare.rs`, `goals.rs` and `instructions.rs`.

use profile::{compare::*, instructions::*, report::goals::*};
use serde_json::{Value, json};

const RULE: Rule = Rule { tolerance: 0.1, per_floor: false };

fn result(p50: f64, per_s: f64, wrong: u64) -> Value {
    json!({"scenario": "1/1/0", "layout": "one", "p50_us": p50, "max_us": p50 * 9.0, "queries_per_s": per_s,
           "hits_wrong": wrong, "floor_us": 5.0})
}

fn regressions(a: &Value, b: &Value, rule: Rule) -> usize {
    compare(a, b, rule).unwrap().1.len()
}

#[test]
fn worse_is_judged_by_what_should_go_which_way() {
    let before = result(100.0, 1000.0, 0);
    for (after, expected) in [
        (result(100.0, 1000.0, 0), 0),
        (result(109.0, 910.0, 0), 0),
        (result(111.0, 1000.0, 0), 1),
        (result(50.0, 2000.0, 0), 0),
        (result(100.0, 880.0, 0), 1),
        (result(100.0, 1000.0, 1), 1),
        (result(200.0, 500.0, 1), 3),
    ] {
        assert_eq!(regressions(&before, &after, RULE), expected, "{after}");
    }
    let text = compare(&before, &result(200.0, 1000.0, 0), RULE).unwrap().1;
    assert_eq!(text, ["1/1/0, one: p50_us went from 100.000 to 200.000 (2.00 x)"]);
}

#[test]
fn a_p99_of_few_times_decides_nothing() {
    let result = |p99: f64, times: u64| json!({"scenario": "a", "p99_us": p99, "times": times});
    assert_eq!(regressions(&result(1.0, 1000), &result(2.0, 1000), RULE), 1);
    assert_eq!(regressions(&result(1.0, 1000), &result(2.0, 999), RULE), 0);
}

#[test]
fn times_may_count_in_floors() {
    let (before, mut after) = (result(100.0, 1000.0, 0), result(200.0, 1000.0, 0));
    after["floor_us"] = json!(10.0);
    assert_eq!(regressions(&before, &after, RULE), 1);
    after["queries_per_s"] = json!(500.0);
    let per_floor = Rule { per_floor: true, ..RULE };
    assert_eq!(regressions(&before, &after, per_floor), 0);
    after["floor_us"] = Value::Null;
    assert!(compare(&before, &after, per_floor).is_err());
    after["interrupted"] = json!(true);
    assert!(compare(&before, &after, RULE).is_err());
}

#[test]
fn rows_are_matched_by_what_they_are_of() {
    let row = |scenario: &str, us: f64| json!({"scenario": scenario, "p50_us": us});
    let a = json!({"rows": [row("a", 1.0), row("b", 1.0)]});
    let b = json!({"rows": [row("b", 1.0), row("a", 2.0), row("c", 1.0)]});
    let comparison = compare(&a, &b, RULE).unwrap();
    assert_eq!(comparison.1.len(), 1);
    let lost = compare(&b, &a, RULE).unwrap().1;
    assert_eq!(lost, ["c: not in the second result"]);
    assert!(comparison.0.contains("c: not in the first result"));
    assert!(compare(&row("a", 1.0), &row("b", 1.0), RULE).is_err());
    for bad in [json!([]), json!({}), json!({"rows": 7}), json!({"rows": []}), json!({"rows": [{}]})] {
        assert!(compare(&a, &bad, RULE).is_err(), "{bad}");
    }
}

#[test]
fn a_goal_is_reached_or_missed() {
    for (bound, reached, missed) in
        [(Bound::AtMost(2.0), 2.0, 2.01), (Bound::AtLeast(2.0), 2.0, 1.99), (Bound::Exactly(9.0), 9.0, 9.1)]
    {
        assert!(bound.is_reached(reached) && !bound.is_reached(missed), "{bound}");
        assert!(!bound.is_reached(f64::NAN), "nothing measured");
    }
}

#[test]
fn wrong_answers_reach_nothing() {
    let goal = |measured, all_right| {
        let (what, command) = ("mean".to_owned(), "profile query".to_owned());
        Goal { what, bound: Bound::AtMost(1.0), measured, command, all_right }
    };
    let text = report(&[goal(0.5, true), goal(1.5, true), goal(0.5, false)], "", false).text();
    let lines: Vec<String> =
        text.lines().skip(4).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "| mean | <= 1.00 | 0.50 | reached | `profile query` |");
    assert!(lines[1].contains("| **missed** |") && lines[2].contains("| **wrong answers** |"));
}

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
    let fewer = judge(&recorded, &counts(&[("a", 90.0), ("b", 100.0)]), 0.05).unwrap();
    assert!(fewer.0.to_string().contains("fewer"));
    let one = judge(&recorded, &counts(&[("a", 100.0), ("c", 1.0)]), 0.05).unwrap();
    assert_eq!(one.1.len(), 2, "{:?}", one.1);
    let elsewhere = Counts { arch: "y".to_owned(), ..recorded.clone() };
    assert!(judge(&recorded, &elsewhere, 0.05).is_err());
}

//! Tests of `goals.rs`.

use profile::goals::*;

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

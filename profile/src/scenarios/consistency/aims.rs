//! What must hold in each table.

use super::cells::DELAY;
use crate::report::Row;
use crate::report::goals::Bound;

/// What is measured, what it should be, and what it is.
pub(super) type Aim = (String, Bound, f64);

/// The largest figure under `key`, by its size alone.
fn most<'a>(rows: impl IntoIterator<Item = &'a Row>, key: &str) -> f64 {
    rows.into_iter().map(|row| row.get(key).abs()).fold(0.0, f64::max)
}

/// Rows in which each of `of` is so.
fn at<'a>(rows: &'a [Row], of: &[(&str, f64)]) -> Vec<&'a Row> {
    let is = |row: &&Row| of.iter().all(|(key, value)| (row.get(key) - value).abs() < 1e-9);
    rows.iter().filter(is).collect()
}

pub(super) fn c1(rows: &[Row]) -> Vec<Aim> {
    let (none, three_messages) = (Bound::Exactly(0.0), Bound::AtMost(3.0 * DELAY.1.as_secs_f64()));
    let worst = |what: &str, bound, key| (format!("{what}, worst row"), bound, most(rows, key));
    let messages = "messages for an update, 3 replicas on 3 indexers, worst row".to_owned();
    vec![
        worst("invalid query results, %", none, "invalid_percent"),
        worst("the same, replaced longer ago than one message takes, %", none, "invalid_late_percent"),
        worst("stale reads served as fresh, %", none, "stale_percent"),
        worst("longest of them, s (a registration, its answer, a push)", three_messages, "stale_max_s"),
        (messages, Bound::AtMost(6.0), most(at(rows, &[("readers", 3.0)]), "messages_per_update")),
    ]
}

pub(super) fn c2(rows: &[Row]) -> Vec<Aim> {
    let off =
        |what: &str, key| (format!("points from 1-(1-e^-x)/x, {what}"), Bound::AtMost(1.0), most(rows, key));
    vec![
        off("x = TTR / update interval, worst row", "off_points"),
        off("x = interval of the questions (TTR - 1 s) / update interval", "off_asked_points"),
    ]
}

pub(super) fn c3(rows: &[Row]) -> Vec<Aim> {
    let rows = at(rows, &[("session_min", 30.0), ("loss_percent", 5.0)]);
    let hybrid = rows.into_iter().find(|row| row.0.get("mode").is_some_and(|mode| mode == "hybrid"));
    let of = |key: &str| hybrid.map_or(f64::NAN, |row| row.get(key));
    let fewer = |key: &str| 100.0 - 100.0 * of(key) / of("flood");
    let aim = |what: &str, least, measured| {
        (format!("hybrid, 5 % loss, sessions of 30 min: {what}, %"), Bound::AtLeast(least), measured)
    };
    vec![
        aim("fidelity", 99.9, of("fidelity_percent")),
        aim("fewer messages than flooding", 70.0, fewer("all_per_update")),
        aim("the same without questions", 70.0, fewer("messages_per_update")),
    ]
}

pub(super) fn c4(rows: &[Row]) -> Vec<Aim> {
    let late = rows.iter().map(|row| row.get("past_bound")).sum();
    vec![("reads served as fresh later than lease + delay".to_owned(), Bound::Exactly(0.0), late)]
}

pub(super) fn c5(rows: &[Row]) -> Vec<Aim> {
    let broken = [
        ("went_back", "older after newer"),
        ("never_shared", "believed and never shared"),
        ("two_contents", "a number for two contents"),
    ];
    let aims = |row: &Row| {
        let mishaps = row.0.get("mishaps").and_then(|of| of.as_str()).unwrap_or_default();
        broken.map(|(key, what)| (format!("{mishaps}: {what}"), Bound::Exactly(0.0), row.get(key)))
    };
    rows.iter().flat_map(aims).collect()
}

pub(super) fn c6(rows: &[Row]) -> Vec<Aim> {
    let messages = |indexers, readers| {
        most(at(rows, &[("indexers", indexers), ("readers", readers)]), "messages_per_update")
    };
    let each = (messages(100.0, 30.0) - messages(100.0, 0.0)) / 30.0;
    let times = messages(100.0, 3.0) / messages(10.0, 3.0);
    let what = "messages for an update of 3 replicas, 100 indexers in times of 10".to_owned();
    vec![
        (what, Bound::AtMost(1.1), times),
        ("messages for each further replica, 100 indexers".to_owned(), Bound::AtMost(3.0), each),
    ]
}

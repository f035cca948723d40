//! Shows the way of a query: a tree of indexers with the time of each hop.

use std::io;

use super::downloads::short;
use crate::{
    api::{HopRow, TraceRow, Unasked},
    terminal::{
        Output,
        table::{Cells, Table},
        units::duration,
    },
};

const HEADINGS: [&str; 5] = ["WAITED", "OWN", "INDEXER", "ANSWER", "ADDRESS"];
/// Neighbors with the same reason that are shown one by one; of more only the number is.
const SHOWN_EACH_MAX: usize = 4;

pub(in crate::api) fn show(trace: TraceRow, output: Output) -> io::Result<()> {
    let mut cells = Cells::default();
    trace.indexers.iter().for_each(|hop| add_hop(&mut cells, hop, 0));
    Table::new(&HEADINGS, &[0, 1]).print(&cells, output)?;
    if !trace.complete {
        output.note("note: more indexers were asked than are shown");
    }
    let is_answered = trace.indexers.iter().any(|hop| hop.error.is_none());
    match (trace.found, is_answered) {
        (true, _) => {}
        (false, true) => output.note(&format!("nobody shares {}", trace.name)),
        (false, false) => {
            output.note(&format!("no indexer answered: who shares {} is not known", trace.name))
        }
    }
    Ok(())
}

/// Adds a line for `hop`, and those for whom it did and did not ask below it.
fn add_hop(cells: &mut Cells, hop: &HopRow, depth: usize) {
    let indent = "  ".repeat(depth);
    cells.add(duration(hop.waited_ms));
    match &hop.error {
        None => cells.add(duration(hop.own_ms)),
        Some(_) => cells.add("-"),
    }
    cells.add(format_args!("{indent}{}", hop.node.as_deref().map_or("?", short)));
    let late = if hop.despite_summary { "; asked after the others" } else { "" };
    match &hop.error {
        None => cells.add(format_args!("{}{late}", found(hop))),
        Some(why) => cells.add(format_args!("{why}{late}")),
    }
    cells.add(hop.addr.as_deref().unwrap_or("?"));
    add_unasked(cells, &indent, hop);
    hop.asked.iter().for_each(|hop| add_hop(cells, hop, depth + 1));
}

fn found(hop: &HopRow) -> String {
    if hop.again {
        return "asked by another before".to_owned();
    }
    let versions = hop.listed.iter().map(|found| {
        let holders = if found.holders == 1 { "holder" } else { "holders" };
        format!("version {}, {} {holders}", found.version, found.holders)
    });
    let versions: Vec<String> = versions.collect();
    if versions.is_empty() { "nothing".to_owned() } else { versions.join("; ") }
}

fn add_unasked(cells: &mut Cells, indent: &str, hop: &HopRow) {
    let mut line = |node: &str, addr: &str, why: &str| {
        cells.add("-");
        cells.add("-");
        cells.add(format_args!("{indent}  {node}"));
        cells.add(format_args!("not asked: {why}"));
        cells.add(addr);
    };
    for same in hop.not_asked.chunk_by(|one, other| one.kind == other.kind) {
        let why = &same[0].why;
        if same.len() > SHOWN_EACH_MAX {
            line(&format!("{} others", same.len()), "", why);
            continue;
        }
        for Unasked { node, addr, .. } in same {
            line(node.as_deref().map_or("?", short), addr.as_deref().unwrap_or_default(), why);
        }
    }
    if hop.not_asked_more > 0 {
        line(&format!("{} more", hop.not_asked_more), "", "");
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{
        FileName, List, NoAnswer, NodeId, NodeTag, TraceAnswer, TraceFound, TraceHop, TraceReply, Unasked,
        Version, WhyUnasked,
    };

    use super::*;

    fn hop(depth: u8, answer: Result<TraceAnswer, NoAnswer>) -> TraceHop {
        let (node, addr) = (Some(NodeId::from_bytes([depth; 32])), Some(([127, 0, 0, 1], 7).into()));
        TraceHop { depth, node, addr, waited_us: 1234, despite_summary: false, answer }
    }

    fn answers(found: u32, unasked: usize) -> Result<TraceAnswer, NoAnswer> {
        let origin: NodeTag = NodeId::from_bytes([9; 32]).tag();
        let found = (found > 0).then_some(TraceFound { origin, version: Version::FIRST, holders: found });
        let unasked = vec![Unasked { node: Some(origin), addr: None, why: WhyUnasked::Covered }; unasked];
        let (found, unasked) = (List::first_of(found), List::first_of(unasked));
        Ok(TraceAnswer { found, unasked, own_us: 70, ..TraceAnswer::default() })
    }

    #[test]
    fn hops_are_indented_below_who_asked_them_with_aligned_times() {
        let hops = [
            hop(0, answers(0, 1)),
            hop(1, answers(2, 5)),
            hop(2, Err(NoAnswer::Late)),
            hop(1, answers(1, 0)),
        ];
        let tree = TraceReply { hops: List::first_of(hops), whole: true };
        let row = TraceRow::of(&FileName::new("a").unwrap(), &[tree]);
        let (mut cells, mut table, mut out) = (Cells::default(), Table::new(&HEADINGS, &[0, 1]), Vec::new());
        row.indexers.iter().for_each(|hop| add_hop(&mut cells, hop, 0));
        table.rows_within(&cells, None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = [
            "WAITED    OWN  INDEXER         ANSWER                       ADDRESS",
            "1.2 ms  70 us  0000000000      nothing                      127.0.0.1:7",
            "     -      -    0909090909    not asked: asked by another",
            "1.2 ms  70 us    0101010101    version 1, 2 holders         127.0.0.1:7",
            "     -      -      5 others    not asked: asked by another",
            "1.2 ms      -      0202020202  did not answer in time       127.0.0.1:7",
            "1.2 ms  70 us    0101010101    version 1, 1 holder          127.0.0.1:7",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let value = &serde_json::to_value(row).unwrap()["indexers"][0];
        let asked = |value: &serde_json::Value| value["asked"].as_array().unwrap().len();
        assert_eq!((asked(value), asked(&value["asked"][0])), (2, 1));
        assert_eq!(value["asked"][0]["asked"][0]["error"], "did not answer in time");
        assert_eq!(value["not_asked"][0]["kind"], "covered");
        assert_eq!((value["waited_ms"].as_f64(), value["own_ms"].as_f64()), (Some(1.234), Some(0.07)));
    }
}

//! Shows the way of a query: a tree of indexers with the time of each hop.

use std::io;

use nekoproto::{FileName, TraceAnswer, TraceHop, TraceReply, Unasked};

use super::{
    View,
    table::{Cells, Table},
};
use crate::{
    cli::{Ended, output::Output, units::duration},
    commands::{Row, Summary},
    json::TraceJson,
};

const HEADINGS: [&str; 5] = ["WAITED", "OWN", "INDEXER", "ADDRESS", "ANSWER"];
/// Neighbors with the same reason that are shown one by one; of more only the number is.
const SHOWN_EACH_MAX: usize = 4;

/// A table with a line for each hop, or `{"name","found","complete","indexers":[...]}`, each with its `"asked"`.
pub(super) struct Trace {
    name: FileName,
    table: Table,
    trees: Vec<TraceReply>,
}

impl Trace {
    pub(super) fn of(name: FileName) -> Self {
        Self { name, table: Table::new(&HEADINGS, &[0, 1]), trees: Vec::new() }
    }

    fn hops(&self) -> impl Iterator<Item = &TraceHop> {
        self.trees.iter().flat_map(|tree| tree.hops.iter())
    }
}

impl View for Trace {
    fn rows(&mut self, rows: Vec<Row>, _: Output) -> io::Result<()> {
        self.trees.extend(rows.into_iter().filter_map(|row| match row {
            Row::Trace(tree) => Some(tree),
            _ => None,
        }));
        Ok(())
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        let is_found = self.trees.iter().any(TraceReply::has_found);
        if output.is_json() {
            output.object(&TraceJson::of(&self.name, &self.trees))?;
        } else {
            let mut cells = Cells::default();
            self.hops().for_each(|hop| add_hop(&mut cells, hop));
            self.table.rows(&cells, output.lines())?;
            if !self.trees.iter().all(|tree| tree.whole) {
                output.note("note: more indexers were asked than are shown");
            }
            if !is_found {
                output.note(&format!("nobody offers {}", self.name));
            }
        }
        Ok(match (is_found, self.hops().any(|hop| hop.answer.is_ok())) {
            (true, _) => Ended::Well,
            (false, true) => Ended::NotFound,
            (false, false) => Ended::Failed,
        })
    }
}

fn add_hop(cells: &mut Cells, hop: &TraceHop) {
    let indent = "  ".repeat(hop.depth.into());
    cells.add(duration(hop.waited_us.into()));
    match &hop.answer {
        Ok(answer) => cells.add(duration(answer.own_us.into())),
        Err(_) => cells.add("-"),
    }
    let node = hop.node.map_or("?".to_owned(), |node| node.short());
    cells.add(format_args!("{indent}{node}"));
    cells.add(hop.addr.map_or("?".to_owned(), |addr| addr.to_string()));
    let late = if hop.despite_summary { "; asked after the others" } else { "" };
    match &hop.answer {
        Ok(answer) => {
            cells.add(format_args!("{}{late}", found(answer)));
            add_unasked(cells, &indent, answer);
        }
        Err(why) => cells.add(format_args!("{why}{late}")),
    }
}

fn found(answer: &TraceAnswer) -> String {
    if answer.again {
        return "asked by another before".to_owned();
    }
    let versions = answer.found.iter().map(|found| {
        let holders = if found.holders == 1 { "holder" } else { "holders" };
        format!("version {}, {} {holders}", found.version, found.holders)
    });
    let versions: Vec<String> = versions.collect();
    if versions.is_empty() { "nothing".to_owned() } else { versions.join("; ") }
}

fn add_unasked(cells: &mut Cells, indent: &str, answer: &TraceAnswer) {
    let mut line = |node: &str, addr: &str, why: &str| {
        cells.add("-");
        cells.add("-");
        cells.add(format_args!("{indent}  {node}"));
        cells.add(addr);
        cells.add(format_args!("not asked: {why}"));
    };
    for same in answer.unasked.chunk_by(|one, other| one.why == other.why) {
        let why = same[0].why.to_string();
        if same.len() > SHOWN_EACH_MAX {
            line(&format!("{} others", same.len()), "", &why);
            continue;
        }
        for Unasked { node, addr, .. } in same {
            let node = node.map_or("?".to_owned(), |node| node.to_string()[..10].to_owned());
            line(&node, &addr.map_or(String::new(), |addr| addr.to_string()), &why);
        }
    }
    if answer.unasked_more > 0 {
        line(&format!("{} more", answer.unasked_more), "", "");
    }
}

#[cfg(test)]
mod tests {
    use nekoproto::{List, NoAnswer, NodeId, NodeTag, TraceFound, Version, WhyUnasked};

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
        let (mut cells, mut table, mut out) = (Cells::default(), Table::new(&HEADINGS, &[0, 1]), Vec::new());
        hops.iter().for_each(|hop| add_hop(&mut cells, hop));
        table.rows(&cells, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "WAITED    OWN  INDEXER         ADDRESS      ANSWER",
                "1.2 ms  70 us  0000000000      127.0.0.1:7  nothing",
                "     -      -    0909090909                 not asked: asked by another",
                "1.2 ms  70 us    0101010101    127.0.0.1:7  version 1, 2 holders",
                "     -      -      5 others                 not asked: asked by another",
                "1.2 ms      -      0202020202  127.0.0.1:7  did not answer in time",
                "1.2 ms  70 us    0101010101    127.0.0.1:7  version 1, 1 holder",
            ]
        );
        let tree = TraceReply { hops: List::first_of(hops), whole: true };
        let object = TraceJson::of(&FileName::new("a").unwrap(), &[tree]);
        let value = &serde_json::to_value(object).unwrap()["indexers"][0];
        let asked = |value: &serde_json::Value| value["asked"].as_array().unwrap().len();
        assert_eq!((asked(value), asked(&value["asked"][0])), (2, 1));
        assert_eq!(value["asked"][0]["asked"][0]["error"], "did not answer in time");
        assert_eq!(value["not_asked"][0]["why"], "covered");
    }
}

//! Shows the way of a route probe: a line for each indexer that had it, with its time and that to the next and back.

use std::io;

use super::{
    View,
    table::{Cells, Table},
};
use crate::{
    cli::{Ended, output::Output, units::duration},
    commands::{Row, Summary},
    indexers::Probed,
    json::ProbeJson,
};

const HEADINGS: [&str; 5] = ["HOP", "OWN", "LINK", "INDEXER", "ADDRESS"];

/// A table with a line for each stop, and a note for each end; or `{"indexers":[{"stops":[...],"end","reason"}]}`.
#[derive(Default)]
pub(super) struct Probe {
    probed: Vec<Probed>,
}

impl View for Probe {
    fn rows(&mut self, rows: Vec<Row>, _: Output) -> io::Result<()> {
        self.probed.extend(rows.into_iter().filter_map(|row| match row {
            Row::Probe(probed) => Some(probed),
            _ => None,
        }));
        Ok(())
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        if output.is_json() {
            output.object(&ProbeJson::of(&self.probed))?;
        } else {
            let mut table = Table::new(&HEADINGS, &[0, 1, 2]);
            let (cells, ends) = shown(&self.probed);
            table.rows(&cells, output.lines())?;
            ends.iter().for_each(|end| output.note(end));
        }
        let is_answered = self.probed.iter().any(|probed| probed.way.is_ok());
        Ok(if is_answered { Ended::Well } else { Ended::Failed })
    }
}

/// The lines, and how each probe ended.
fn shown(all: &[Probed]) -> (Cells, Vec<String>) {
    let (mut cells, mut ends) = (Cells::default(), Vec::new());
    for Probed { addr, waited_us, way } in all {
        let way = match way {
            Ok(way) => way,
            Err(why) => {
                ends.push(format!("{addr}: {why}"));
                continue;
            }
        };
        let mut at = Some(*addr);
        for (hop, stop) in way.stops.iter().enumerate() {
            cells.add(hop);
            cells.add(duration((stop.own_ns / 1000).into()));
            cells.add(way.link_us(hop).map_or("-".to_owned(), |us| duration(us.into())));
            let again = if stop.again { ", again" } else { "" };
            cells.add(format_args!("{}{again}", &stop.node.to_string()[..10]));
            cells.add(at.map_or("?".to_owned(), |addr| addr.to_string()));
            at = stop.next;
        }
        let circles = way.stops.iter().filter(|stop| stop.again).count();
        let hops = way.stops.len() - 1;
        ends.push(format!(
            "{addr}: {hops} hops in {}, {circles} of them to where it had been; ended: {}",
            duration((*waited_us).into()),
            way.end
        ));
    }
    (cells, ends)
}

#[cfg(test)]
mod tests {
    use nekoproto::{
        List, NoAnswer, NodeId,
        probe::{ProbeEnd, ProbeReply, ProbeStop},
    };

    use super::*;

    #[test]
    fn each_stop_has_a_line_and_each_probe_an_end() {
        let addr = ([127, 0, 0, 1], 7).into();
        let stop = |n: u8, waited_us, next, again| ProbeStop {
            node: NodeId::from_bytes([n; 32]).tag(),
            again,
            own_ns: 9_000,
            waited_us,
            next,
        };
        let stops = [
            stop(1, 300, Some(([127, 0, 0, 1], 8).into()), false),
            stop(2, 140, Some(addr), false),
            stop(1, 0, None, true),
        ];
        let way = ProbeReply { stops: List::first_of(stops), end: ProbeEnd::Hops };
        let all = [
            Probed { addr, waited_us: 400, way: Ok(way) },
            Probed { addr, waited_us: 5, way: Err(NoAnswer::Late) },
        ];
        let (cells, ends) = shown(&all);
        let (mut table, mut out) = (Table::new(&HEADINGS, &[0, 1, 2]), Vec::new());
        table.rows(&cells, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "HOP   OWN    LINK  INDEXER            ADDRESS",
                "  0  9 us  151 us  0101010101         127.0.0.1:7",
                "  1  9 us  131 us  0202020202         127.0.0.1:8",
                "  2  9 us       -  0101010101, again  127.0.0.1:7",
            ]
        );
        assert_eq!(
            ends,
            [
                "127.0.0.1:7: 2 hops in 400 us, 1 of them to where it had been; ended: no hops left",
                "127.0.0.1:7: did not answer in time",
            ]
        );
        let value = serde_json::to_value(ProbeJson::of(&all)).unwrap();
        let stops = &value["indexers"][0]["stops"];
        assert_eq!((&stops[1]["addr"], &stops[2]["again"]), (&"127.0.0.1:8".into(), &true.into()));
        assert_eq!(
            (&value["indexers"][0]["end"], &value["indexers"][1]["end"]),
            (&"hops".into(), &().into())
        );
    }
}

//! Tests of `node/fetch.rs`.

use nekopeer::Delivery;
use nekoproto::NodeId;

use profile::node::fetch::*;

#[test]
fn what_a_source_sent_for_several_files_is_summed() {
    let from = |node: u8, bytes, banned| {
        let addr = ([127, 0, 0, 1], 1).into();
        Delivery { node: NodeId::from_bytes([node; 32]), addr, bytes, banned }
    };
    let sum = summed(vec![
        Ok(vec![from(1, 10, false), from(2, 5, true)]),
        Err("broken".to_owned()),
        Ok(vec![from(1, 1, false)]),
    ]);
    let bytes: Vec<_> = sum.sources.iter().map(|sent| (sent.bytes, sent.banned)).collect();
    assert_eq!((bytes, sum.failed.len()), (vec![(11, false), (5, true)], 1));
}

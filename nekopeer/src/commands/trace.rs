//! A trace as JSON, for every door.

use nekoproto::{NodeId, TraceHop, TraceReply, Unasked, WhyUnasked};
use serde_json::{Value, json};

/// The first hop as an object; those that it asked are in its `asked`, and so on.
pub(crate) fn trace_tree(reply: &TraceReply) -> Value {
    tree(&mut reply.hops.iter())
}

/// The next hop and, below it, those that it asked.
fn tree<'a>(hops: &mut (impl Iterator<Item = &'a TraceHop> + Clone)) -> Value {
    let Some(hop) = hops.next() else { return Value::Null };
    let mut asked = Vec::new();
    while hops.clone().next().is_some_and(|next| next.depth > hop.depth) {
        asked.push(tree(hops));
    }
    let mut value = json!({
        "node": hop.node.map(|node: NodeId| node.to_string()),
        "addr": hop.addr.map(|addr| addr.to_string()),
        "waited_us": hop.waited_us,
        "despite_summary": hop.despite_summary,
        "asked": asked,
    });
    match &hop.answer {
        Ok(answer) => {
            let found = answer.found.iter().map(|found| {
                let (origin, version) = (found.origin.to_string(), found.version.get());
                json!({ "origin": origin, "version": version, "holders": found.holders })
            });
            let unasked = answer.unasked.iter().map(|Unasked { node, addr, why }| {
                let (node, addr) = (node.map(|node| node.to_string()), addr.map(|addr| addr.to_string()));
                json!({ "node": node, "addr": addr, "why": word(*why), "reason": why.to_string() })
            });
            value["found"] = found.collect();
            value["again"] = answer.again.into();
            value["took_us"] = answer.took_us.into();
            value["own_us"] = answer.own_us.into();
            value["not_asked"] = unasked.collect();
            value["not_asked_more"] = answer.unasked_more.into();
        }
        Err(why) => value["error"] = why.to_string().into(),
    }
    value
}

/// The reason as one word for machines.
const fn word(why: WhyUnasked) -> &'static str {
    match why {
        WhyUnasked::Away => "away",
        WhyUnasked::NoRoom => "no_room",
        WhyUnasked::RuledOut => "summary",
        WhyUnasked::NoHopsLeft => "no_hops_left",
        WhyUnasked::Covered => "covered",
    }
}

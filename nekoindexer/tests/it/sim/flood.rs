//! One query through a simulated network, as `query::answer` carries it out.

use nekoindexer::state::{
    caller::{Caller, CallerRole},
    holders::Sender,
    merge::{Found, Merge},
};

use super::{
    graph::Graph,
    world::{IDS, Node, Post, nodes},
};

use crate::common::*;

pub(crate) const NAME: &str = "wanted.bin";
/// Longer than sixteen hops there and back take.
const DEADLINE: Duration = Duration::from_secs(60);

enum Message {
    Query { to: usize, from: usize, sender: usize, request: QueryRequest },
    Reply { to: usize, reply: QueryReply },
}

/// A copy of the query that a node has forwarded and whose answers it awaits.
struct Waiting {
    /// Who gets the answer; `None` is the asker.
    from: Option<usize>,
    merge: Option<Merge>,
    open: usize,
}

#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) record: ListedRecord,
    pub(crate) partial: bool,
}

pub(crate) struct Flood {
    nodes: Vec<Node>,
    post: Post<Message>,
    /// Numbered; a message names the number of the copy it belongs to.
    waiting: Vec<Waiting>,
    verifier: Verifier,
    reply: Option<QueryReply>,
    /// How often each node answered with what it has itself.
    pub(crate) answers: Vec<u32>,
    pub(crate) messages: u32,
    /// Whether somebody had a neighbor out of reach that it could not count as asked.
    pub(crate) gap: bool,
}

impl Flood {
    /// The network `whole`, of whose links only those of `working` work. The peer of the n-th
    /// indexer holds the records that `held(n)` names, or a part of them.
    pub(crate) fn new(
        whole: &Graph,
        working: &Graph,
        held: impl Fn(usize) -> Option<Holding>,
        rng: StdRng,
    ) -> Self {
        let start = Instant::now();
        let nodes = nodes(whole, working, start);
        for (n, node) in nodes.iter().enumerate() {
            match held(n) {
                Some(Holding { record, partial: true }) => {
                    drop(node.state.on_register_partial(&node.session, vec![record]));
                }
                Some(Holding { record, partial: false }) => {
                    drop(node.state.on_register(&node.session, vec![record], false));
                }
                None => {}
            }
        }
        let answers = vec![0; nodes.len()];
        let post = Post::new(start, rng);
        let (waiting, verifier) = (Vec::new(), Verifier::default());
        Self { nodes, post, waiting, verifier, reply: None, answers, messages: 0, gap: false }
    }

    /// Asks at node `asker` and delivers until nothing is under way; the answer.
    pub(crate) fn run(&mut self, asker: usize, ttl_hops: u8) -> QueryReply {
        let (msg_id, covered) = (MsgId::random(), Covered::new());
        self.take(asker, None, QueryRequest { covered, ..QueryRequest::new(msg_id, name(NAME), ttl_hops) });
        while let Some(message) = self.post.receive() {
            match message {
                Message::Query { to, from, sender, request } => self.take(to, Some((from, sender)), request),
                Message::Reply { to, reply } => self.absorb(to, reply),
            }
        }
        self.reply.take().expect("the asker is answered")
    }

    /// `from` is the copy that this one was forwarded from, and the node that did so.
    fn take(&mut self, to: usize, from: Option<(usize, usize)>, request: QueryRequest) {
        let left = DEADLINE.checked_sub(self.post.elapsed()).expect("the deadline covers every copy");
        let role = from.map_or(CallerRole::Peer, |_| CallerRole::Trusted);
        let sender = IDS[from.map_or(to, |(_, sender)| sender)];
        let from = from.map(|(copy, _)| copy);
        let node = &self.nodes[to];
        let caller = Caller::new((sender, role), None);
        let plan = node.state.on_query(&request, &caller, left, self.post.now());
        let (share, local) = plan.expect("the query is taken");
        assert!(share.is_remembered, "a message id was not remembered");
        self.answers[to] += u32::from(!local.is_empty());
        let mut merge = Merge::new(local);
        let Some(ttl_hops) = share.ttl_hops else { return self.answer(from, merge) };
        let (route, ask) = node.route(&request.covered);
        if route.gap {
            self.gap = true;
            merge.lacks_something();
        }
        if ask.is_empty() {
            return self.answer(from, merge);
        }
        let copies = u32::try_from(ask.len()).unwrap();
        self.messages += copies;
        merge.count_messages(copies);
        let waiting = self.waiting.len();
        self.waiting.push(Waiting { from, merge: Some(merge), open: ask.len() });
        let sender = to;
        for to in ask {
            let request = QueryRequest { ttl_hops, covered: route.covered.clone(), ..request.clone() };
            self.post.send(Message::Query { to, from: waiting, sender, request });
        }
    }

    fn absorb(&mut self, to: usize, reply: QueryReply) {
        let waiting = &mut self.waiting[to];
        let merge = waiting.merge.as_mut().expect("nobody answers twice");
        merge.count_messages(reply.messages);
        if !reply.complete {
            merge.lacks_something();
        }
        for hit in reply.hits {
            let record = self.verifier.verify(hit.record).expect("nobody lies");
            let sender =
                Sender { at: IndexerAddr { addr: ANY_PORT, node: identity(0).id() }, is_local: true };
            let holders = nekoindexer::state::holders::heard(
                hit.holders,
                nekoproto::limits::HOLDERS_OF_NEIGHBOR_MAX,
                &[],
                sender,
            );
            merge.absorb(Found { record: record.into(), holders });
        }
        waiting.open -= 1;
        if waiting.open == 0 {
            let merge = waiting.merge.take().expect("still waiting");
            let from = waiting.from;
            self.answer(from, merge);
        }
    }

    fn answer(&mut self, to: Option<usize>, merge: Merge) {
        let reply = merge.finish();
        match to {
            Some(to) => self.post.send(Message::Reply { to, reply }),
            None => self.reply = Some(reply),
        }
    }
}

//! Made-up networks: who is whose neighbor, and how far apart they are.

use crate::common::*;

pub(crate) const NODES_MAX: usize = 200;
/// Most indexers in a full mesh: the work of simulating it grows with the square.
const MESH_MAX: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A random tree with random further links.
    Random,
    Tree,
    Line,
    Ring,
    Mesh,
    /// As many links at every node, ends chosen at random.
    Regular,
}

/// An undirected, connected network without links from a node to itself.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) shape: Shape,
    pub(crate) links: Vec<BTreeSet<usize>>,
}

impl Graph {
    pub(crate) fn random(rng: &mut StdRng) -> Self {
        let shapes = [Shape::Random, Shape::Random, Shape::Random, Shape::Tree, Shape::Line];
        let shapes = shapes.into_iter().chain([Shape::Ring, Shape::Mesh, Shape::Regular]);
        let shapes: Vec<_> = shapes.collect();
        Self::of_shape(shapes[rng.random_range(0..shapes.len())], rng)
    }

    pub(crate) fn of_shape(shape: Shape, rng: &mut StdRng) -> Self {
        let max = if shape == Shape::Mesh { MESH_MAX } else { NODES_MAX };
        Self::new(shape, rng.random_range(2..=max), rng)
    }

    pub(crate) fn new(shape: Shape, count: usize, rng: &mut StdRng) -> Self {
        let mut graph = Self { shape, links: vec![BTreeSet::new(); count] };
        match shape {
            Shape::Tree => graph.grow_tree(rng),
            Shape::Random => {
                graph.grow_tree(rng);
                for _ in 0..rng.random_range(0..=2 * count) {
                    graph.link(rng.random_range(0..count), rng.random_range(0..count));
                }
            }
            Shape::Line => (1..count).for_each(|n| graph.link(n - 1, n)),
            Shape::Ring => (0..count).for_each(|n| graph.link(n, (n + 1) % count)),
            Shape::Mesh => (0..count).for_each(|n| (0..n).for_each(|m| graph.link(n, m))),
            Shape::Regular => (0..rng.random_range(1..=4)).for_each(|_| graph.link_in_a_circle(rng)),
        }
        graph
    }

    pub(crate) fn count(&self) -> usize {
        self.links.len()
    }

    /// Hops from `start` to every node; `None` for those that no link leads to.
    pub(crate) fn hops(&self, start: usize) -> Vec<Option<usize>> {
        let mut hops = vec![None; self.count()];
        hops[start] = Some(0);
        let mut next = VecDeque::from([(start, 0)]);
        while let Some((node, far)) = next.pop_front() {
            for neighbor in &self.links[node] {
                if hops[*neighbor].is_none() {
                    hops[*neighbor] = Some(far + 1);
                    next.push_back((*neighbor, far + 1));
                }
            }
        }
        hops
    }

    /// The nodes at most `ttl_hops` from `start`.
    pub(crate) fn within(&self, start: usize, ttl_hops: u8) -> BTreeSet<usize> {
        let near = |hops: &Option<usize>| hops.is_some_and(|hops| hops <= usize::from(ttl_hops));
        let hops = self.hops(start);
        (0..self.count()).filter(|node| near(&hops[*node])).collect()
    }

    /// The same network with some links cut, chosen at random, and sometimes all those of a node.
    pub(crate) fn damaged(&self, rng: &mut StdRng) -> Self {
        let mut damaged = self.clone();
        let share = [0.0, 0.02, 0.1, 0.3][rng.random_range(0..4)];
        for (node, links) in self.links.iter().enumerate() {
            let all = rng.random_bool(share / 10.0);
            for neighbor in links {
                if all || rng.random_bool(share) {
                    damaged.links[node].remove(neighbor);
                    damaged.links[*neighbor].remove(&node);
                }
            }
        }
        damaged
    }

    fn link(&mut self, a: usize, b: usize) {
        if a != b {
            self.links[a].insert(b);
            self.links[b].insert(a);
        }
    }

    fn grow_tree(&mut self, rng: &mut StdRng) {
        (1..self.count()).for_each(|node| self.link(node, rng.random_range(0..node)));
    }

    fn link_in_a_circle(&mut self, rng: &mut StdRng) {
        let mut order: Vec<usize> = (0..self.count()).collect();
        order.shuffle(rng);
        (0..order.len()).for_each(|at| self.link(order[at], order[(at + 1) % order.len()]));
    }
}

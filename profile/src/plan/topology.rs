//! How indexers are linked, and how far a query gets on those links. Pure.

use std::collections::VecDeque;

use crate::prelude::*;

/// Swaps of links per link that turn the regular circle into a random graph.
const SWAPS_PER_LINK: usize = 20;
/// Rounds of swapping after which a graph that is still not connected is given up.
const ROUNDS_MAX: usize = 1000;

/// How the indexers are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topology {
    /// Everybody with everybody
    Mesh,
    /// Each with the next, the last with the first
    Ring,
    /// Each with the next
    Line,
    /// Each with one above it and at most two below it
    Tree,
    /// Each with as many others as --degree says, drawn by the seed
    Random,
}

/// Who is linked to whom.
///
/// Invariants: no one is linked to itself or twice to the same; links go both ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    neighbors: Vec<Vec<usize>>,
}

impl Graph {
    /// The graph of `indexers` nodes; `degree` and `seed` matter to the random one only.
    pub fn new(topology: Topology, indexers: usize, degree: usize, seed: u64) -> Result<Self> {
        let links: Vec<(usize, usize)> = match topology {
            Topology::Mesh => return Ok(Self::mesh(indexers)),
            Topology::Line => return Ok(Self::line(indexers)),
            Topology::Tree => (1..indexers).map(|b| ((b - 1) / 2, b)).collect(),
            Topology::Ring => {
                let closing = (indexers > 2).then(|| (0, indexers - 1));
                (1..indexers).map(|b| (b - 1, b)).chain(closing).collect()
            }
            Topology::Random => random_regular(indexers, degree, seed)?,
        };
        Ok(Self::of_links(indexers, links))
    }

    pub(crate) fn mesh(indexers: usize) -> Self {
        Self::of_links(indexers, (0..indexers).flat_map(|b| (0..b).map(move |a| (a, b))))
    }

    pub(crate) fn line(indexers: usize) -> Self {
        Self::of_links(indexers, (1..indexers).map(|b| (b - 1, b)))
    }

    pub(crate) const fn len(&self) -> usize {
        self.neighbors.len()
    }

    fn of_links(indexers: usize, links: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut neighbors = vec![Vec::new(); indexers];
        for (a, b) in links {
            neighbors[a].push(b);
            neighbors[b].push(a);
        }
        neighbors.iter_mut().for_each(|list| list.sort_unstable());
        Self { neighbors }
    }

    /// The neighbors of `place`, in order.
    pub fn neighbors(&self, place: usize) -> &[usize] {
        &self.neighbors[place]
    }

    /// For each indexer whether a query that starts at `from` with `ttl_hops` gets there.
    pub fn reach(&self, from: usize, ttl_hops: u8) -> Vec<bool> {
        let mut reached = vec![false; self.neighbors.len()];
        reached[from] = true;
        let mut queue = VecDeque::from([(from, 0u8)]);
        while let Some((place, distance)) = queue.pop_front() {
            if distance == ttl_hops {
                continue;
            }
            for neighbor in &self.neighbors[place] {
                if !std::mem::replace(&mut reached[*neighbor], true) {
                    queue.push_back((*neighbor, distance + 1));
                }
            }
        }
        reached
    }

    pub fn is_connected(&self) -> bool {
        self.reach(0, u8::MAX).into_iter().all(|reached| reached)
    }
}

/// Links of a random graph in which everyone has `degree` neighbors: a regular circle whose links
/// change ends at random until it is well mixed and connected.
fn random_regular(indexers: usize, degree: usize, seed: u64) -> Result<Vec<(usize, usize)>> {
    ensure!(degree < indexers, "a degree of {degree} is more than {indexers} indexers can have");
    ensure!(degree >= 2, "a degree of {degree} connects nobody: at least 2 is needed");
    let is_even = (indexers * degree).is_multiple_of(2);
    ensure!(is_even, "{indexers} indexers of degree {degree} cannot be: the product must be even");
    let near = (1..=degree / 2).flat_map(|step| (0..indexers).map(move |a| (a, (a + step) % indexers)));
    let across = (0..indexers / 2 * (degree % 2)).map(|a| (a, a + indexers / 2));
    let mut links: Vec<(usize, usize)> = near.chain(across).collect();
    let mut known: HashSet<(usize, usize)> = links.iter().copied().map(in_order).collect();
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..ROUNDS_MAX {
        for _ in 0..links.len() * SWAPS_PER_LINK {
            swap(&mut links, &mut known, &mut rng);
        }
        if Graph::of_links(indexers, links.iter().copied()).is_connected() {
            return Ok(links);
        }
    }
    bail!("no connected graph of {indexers} indexers of degree {degree} was found")
}

/// Two links exchange their ends, unless that would link someone to itself or twice.
fn swap(links: &mut [(usize, usize)], known: &mut HashSet<(usize, usize)>, rng: &mut StdRng) {
    let (first, second) = (rng.random_range(0..links.len()), rng.random_range(0..links.len()));
    let ((a, b), (c, d)) = (links[first], links[second]);
    let new = [in_order((a, d)), in_order((c, b))];
    if a != d && c != b && new[0] != new[1] && new.iter().all(|link| !known.contains(link)) {
        for old in [links[first], links[second]] {
            known.remove(&in_order(old));
        }
        known.extend(new);
        (links[first], links[second]) = ((a, d), (c, b));
    }
}

const fn in_order((a, b): (usize, usize)) -> (usize, usize) {
    if a < b { (a, b) } else { (b, a) }
}

//! All goals of the transfer in one run: what is aimed at, what was measured, and the command that
//! measures it alone.

use std::{io::Write, num::NonZeroU64, sync::Arc};

use nekoproto::transport::Security;

use super::{
    figures::Row,
    folder::Folder,
    measure,
    scenario::{Bulk, Change, How, Scenario, What},
    units::shown,
};
use crate::{
    cluster::node::Place,
    goals::{self, Bound},
    run::Watch,
};

/// The cap of a link: 50 MB/s.
const CAP: NonZeroU64 = NonZeroU64::new(50_000_000).unwrap();
/// Readers of one origin.
const READERS: usize = 8;
/// The sparse file is that many times as large.
const SPARSE_TIMES: u64 = 16;
/// What a gibibyte may take to be published, in seconds.
const PUBLISH_S: f64 = 0.6;
/// What either side may have in memory, in MiB.
const PEAK_MIB: f64 = 64.0;

/// Small files, unless told otherwise.
pub const FILES: usize = 10_000;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of the file.
    pub size: u64,
    /// Small files.
    pub files: usize,
    /// Least and most bytes of one.
    pub file_bytes: (u64, u64),
    /// Times of each row that depends on the machine.
    pub rounds: usize,
    /// Seed of all bytes.
    pub seed: u64,
}

/// What is measured for the goals.
#[derive(Clone, Debug)]
struct Plan {
    whole: Scenario,
    four: Scenario,
    corrupt: Scenario,
    one_capped: Scenario,
    many_capped: Scenario,
    changes: [Scenario; 2],
    small: Scenario,
    publish: Scenario,
    sparse: Scenario,
}

impl Plan {
    fn new(options: &Options) -> Self {
        let Options { size, files: count, file_bytes: bytes, rounds, seed } = *options;
        let whole = Scenario { rounds, seed, ..Scenario::whole(size) };
        // What caps or chunks decide comes out the same every time, and no floor is held against it.
        let once = Scenario { rounds: 1, floors: false, ..whole.clone() };
        let bulk = Bulk { size, sparse: false };
        let change = |how| Change { percent: 1.0, places: 20, how };
        let one_capped = Scenario { cap_up: Some(CAP), cap_down: Some(CAP), ..once.clone() };
        Self {
            four: Scenario { sources: 4, cap_up: Some(CAP), ..once.clone() },
            corrupt: Scenario { sources: 4, corrupt: Some(1.0), ..once.clone() },
            many_capped: Scenario { readers: READERS, ..one_capped.clone() },
            one_capped,
            changes: [How::InPlace, How::Insert]
                .map(|how| Scenario { what: What::Change(bulk, change(how)), ..once.clone() }),
            small: Scenario { what: What::Files { count, bytes }, ..whole.clone() },
            publish: Scenario { what: What::Publish(bulk), ..whole.clone() },
            sparse: Scenario {
                what: What::Whole(Bulk { size: size.saturating_mul(SPARSE_TIMES), sparse: true }),
                ..once
            },
            whole,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Scenario> {
        let Self { whole, four, corrupt, one_capped, many_capped, changes, small, publish, sparse } = self;
        [whole, four, corrupt, one_capped, many_capped, small, publish, sparse].into_iter().chain(changes)
    }
}

/// All that is measured, to be checked before anything begins.
#[must_use]
pub fn scenarios(options: &Options) -> Vec<Scenario> {
    Plan::new(options).all().cloned().collect()
}

/// Measures all goals; fewer if stopped. Also tells whether every file arrived and was right.
pub async fn run(
    options: &Options,
    folder: &Folder,
    place: &Place,
    watch: &Arc<Watch>,
) -> (Vec<goals::Row>, bool) {
    let plan = Plan::new(options);
    let mut goals = Goals { folder, place, watch, rows: Vec::new(), all_well: true };
    goals.one_source(&plan).await;
    goals.several_sources(&plan).await;
    goals.several_readers(&plan).await;
    goals.changes(&plan).await;
    goals.small(&plan).await;
    goals.publish(&plan).await;
    goals.sparse(&plan).await;
    (goals.rows, goals.all_well && !watch.is_stopped())
}

struct Goals<'a> {
    folder: &'a Folder,
    place: &'a Place,
    watch: &'a Arc<Watch>,
    rows: Vec<goals::Row>,
    all_well: bool,
}

impl Goals<'_> {
    async fn one_source(&mut self, plan: &Plan) {
        for (security, name, bound) in [(Security::Insecure, "plain TCP", 1.1), (Security::Tls, "TLS", 1.35)]
        {
            let scenario = Scenario { security, ..plan.whole.clone() };
            let Some(row) = self.measure(&scenario).await else { return };
            let goal = format!("one source, {name}, in floors of raw TCP to a file");
            self.add(&row, &goal, row.median("ratio_tcp"), Bound::AtMost(bound));
            self.peaks(&row, name);
        }
    }

    async fn several_sources(&mut self, plan: &Plan) {
        let Some(row) = self.measure(&plan.four).await else { return };
        self.add(&row, "four sources of 50 MB/s each, MB/s", row.median("mb_per_s"), Bound::AtLeast(190.0));
        let Some(row) = self.measure(&plan.corrupt).await else { return };
        let goal = "one of four sources corrupts 1 % of the chunks";
        self.add(&row, &format!("{goal}: banned"), row.median("banned"), Bound::Exactly(1.0));
        let extra = row.largest("extra_percent");
        self.add(&row, &format!("{goal}: extra bytes, %"), extra, Bound::AtMost(1.0));
    }

    async fn several_readers(&mut self, plan: &Plan) {
        let Some(one) = self.measure(&plan.one_capped).await else { return };
        let Some(many) = self.measure(&plan.many_capped).await else { return };
        let times = many.median("wall_s").zip(one.median("wall_s")).map(|(many, one)| many / one);
        let goal = format!("{READERS} readers, 50 MB/s up and down each: the last, in times of one alone");
        self.add(&many, &goal, times, Bound::AtMost(1.6));
        let goal = format!("{READERS} readers: sent by the origin, copies");
        self.add(&many, &goal, many.median("origin_copies"), Bound::AtMost(1.5));
    }

    async fn changes(&mut self, plan: &Plan) {
        for scenario in &plan.changes {
            let Some(row) = self.measure(scenario).await else { return };
            let What::Change(_, Change { how, .. }) = scenario.what else { return };
            let goal = format!("1 % changed at 20 places, {}: moved, %", how.name());
            self.add(&row, &goal, row.median("moved_percent"), Bound::AtMost(3.0));
        }
    }

    async fn small(&mut self, plan: &Plan) {
        let Some(row) = self.measure(&plan.small).await else { return };
        let name = plan.small.name();
        for (what, key, least) in
            [("published", "files_published_per_s", 3000.0), ("fetched", "files_fetched_per_s", 2000.0)]
        {
            self.add(&row, &format!("{name}: {what} a second"), row.median(key), Bound::AtLeast(least));
        }
    }

    async fn publish(&mut self, plan: &Plan) {
        let Some(row) = self.measure(&plan.publish).await else { return };
        let size = row.size().map_or_else(String::new, shown);
        let taken_s = row.median("publish_s");
        self.add(&row, &format!("publish {size}, s"), taken_s, Bound::AtMost(PUBLISH_S));
    }

    async fn sparse(&mut self, plan: &Plan) {
        let Some(row) = self.measure(&plan.sparse).await else { return };
        self.peaks(&row, "sparse");
    }

    /// Adds the peaks of memory of both sides.
    fn peaks(&mut self, row: &Row, how: &str) {
        let size = row.size().map_or_else(String::new, shown);
        for (side, key) in [("sender", "peak_mib_sender"), ("reader", "peak_mib_receiver")] {
            let goal = format!("{size}, {how}: peak of memory of the {side}, MiB");
            self.add(row, &goal, row.largest(key), Bound::AtMost(PEAK_MIB));
        }
    }

    /// What came of `scenario`, nothing if it broke; `None` if stopped.
    async fn measure(&mut self, scenario: &Scenario) -> Option<Row> {
        if self.watch.is_stopped() {
            return None;
        }
        let row = measure(scenario, self.folder, self.place, self.watch).await.unwrap_or_else(|fault| {
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(std::io::stderr(), "{}: {:#}", scenario.name(), fault.parts().1);
            Row { scenario: scenario.clone(), rounds: Vec::new() }
        });
        if self.watch.is_stopped() {
            return None;
        }
        for error in row.errors() {
            let _ = writeln!(std::io::stderr(), "{}: {error}", scenario.name()); // as above
        }
        self.all_well &= row.is_all_well();
        Some(row)
    }

    /// Adds a goal. What was not fetched to its end reaches none.
    fn add(&mut self, row: &Row, goal: &str, is: Option<f64>, bound: Bound) {
        let is = is.filter(|_| row.errors().next().is_none()).unwrap_or(f64::NAN);
        let (goal, command, all_right) = (goal.to_owned(), row.scenario.command(), row.is_right());
        self.rows.push(goals::Row { goal, bound, is, command, all_right });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_can_be_measured_also_when_it_is_small() {
        for size in [1 << 20, 1 << 30] {
            let options = Options { size, files: 10, file_bytes: (1, 10), rounds: 3, seed: 1 };
            let all = scenarios(&options);
            assert_eq!(all.len(), 10);
            all.iter().for_each(|scenario| scenario.check().unwrap());
        }
    }
}

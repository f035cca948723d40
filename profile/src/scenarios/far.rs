//! Measures queries, downloads and updates over an emulated network with delays, rates and losses: seconds, round trips and
//! bytes; beside plain TCP, and rsync where it is installed. Every file that arrives is compared.

mod stage;

use testkit::lan::{Packet, Wire, flights};

use self::stage::{ORIGIN, READER, Stage};
use crate::report::units;
use crate::scenarios::prelude::*;

const READERS_MAX: usize = 40;
/// Those that count, and those beside them.
const JOURNEYS: usize = 10;
const COLUMNS: &str = "scenario took_s round_trips flights connections moved_mib beside_s beside ratio";
const PACKET_COLUMNS: &str = "scenario sent_ms arrived_ms from to from_port to_port data opens";
const READER_COLUMNS: &str = "readers mbit took_s alone_s times_single origin_copies";
/// Goal: readers at once, beside one alone. Those of the journeys are in round trips, and beside others.
const READERS_TIMES: f64 = 1.4;
/// Points of a line.
const POINTS_MAX: usize = 2000;
/// Journeys with more are no bars: the others could not be seen beside them.
const FLIGHTS_SHOWN_MAX: f64 = 60.0;

/// Hosts, and what is between them.
///
/// Each host is a network namespace whose packets this process carries: that needs root and the program `ip`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Far {
    /// Milliseconds from a host to another and back
    #[arg(long, value_name = "MS", default_value = "50", value_parser = within(1, 5000))]
    rtt: usize,
    /// What a host sends and receives a second at most, in Mbit
    #[arg(long, value_name = "MBIT", default_value = "100", value_parser = within(1, 1000))]
    rate: usize,
    /// Packets that are lost on the way from a host to another, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    loss: f64,
    /// A packet takes up to so many milliseconds longer
    #[arg(long, value_name = "MS", default_value = "0", value_parser = within(0, 1000))]
    jitter: usize,
    /// Bytes of the large file
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = units::bytes)]
    size: u64,
    /// Small files, of 1 to 10 KB
    #[arg(long, value_name = "N", default_value = "2000", value_parser = within(1, 100_000))]
    files: usize,
    /// Readers that get the large file at once; 0: none
    #[arg(long, value_name = "N", default_value = "8", value_parser = within(0, READERS_MAX))]
    readers: usize,
    /// What each of these and their origin send and receive a second at most, in Mbit
    #[arg(long, value_name = "MBIT", default_value = "20", value_parser = within(1, 1000))]
    readers_rate: usize,
    /// How often each journey is made; what is shown is the median
    #[arg(long, value_name = "N", default_value = "3", value_parser = within(1, 100))]
    rounds: usize,
    /// All goals in one run: what is aimed at, what was measured, reached or missed
    #[arg(long)]
    goals: bool,
    /// Decides what is in the files
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One journey, made several times.
struct Journey {
    name: &'static str,
    took_s: Vec<f64>,
    /// Of the last time, what the reader's wire carried.
    carried: Vec<Packet>,
    /// What else does the same, and how long it takes.
    beside: Option<(&'static str, f64)>,
}

/// The seconds that are aimed at: of those of a round trip, and of what else does the same.
type GoalOf = fn(f64, f64) -> f64;

#[derive(Default)]
struct Measured {
    journeys: Vec<Journey>,
    /// Readers that got the large file at once, beside one alone.
    crowd: Option<Row>,
    plain: Vec<Packet>,
}

impl Scenario for Far {
    type How = Connecting;
    type Target = Detailed;

    fn check(&self, _: &Connecting) -> Result<()> {
        ensure!((0.0..100.0).contains(&self.loss), "--loss is from 0 to less than 100 percent");
        Ok(())
    }

    async fn run(&self, on: &Deployment) -> Result<Report, Fault> {
        let folder = Folder::prepare(None).or_cannot_begin()?;
        folder.has_room(self.size * (self.readers as u64 + 4)).or_cannot_begin()?;
        let (on, watch) = (on.within(&folder), &on.watch);
        let stage = watch.unless_stopped(Stage::start(self, &on)).await.or_cannot_begin()?;
        let mut measured = Measured::default();
        let _progress = Progress::begin("journeys", JOURNEYS, watch);
        let done = watch.unless_stopped(self.measure(&stage, &mut measured)).await;
        stage.stop().await;
        let fault = done.err().filter(|_| !watch.is_stopped()).map(|fault| format!("{fault:#}"));
        let report = measured.report(self, &on);
        Ok(report.ended(watch.is_stopped(), "Interrupted: the other journeys are missing.", fault.as_ref()))
    }
}

impl Far {
    pub(crate) fn rtt_s(&self) -> f64 {
        count(self.rtt) / 1000.0
    }

    /// The wire of a host: there are two between two hosts.
    fn wire(&self, mbit: usize) -> Wire {
        let half = |ms: usize| Duration::from_secs_f64(count(ms) / 2000.0);
        let loss = 1.0 - (1.0 - self.loss / 100.0).sqrt();
        Wire { jitter: half(self.jitter), mbit: count(mbit), loss, ..Wire::of(half(self.rtt) / 2) }
    }

    async fn measure(&self, stage: &Stage, measured: &mut Measured) -> Result<()> {
        let journeys = &mut measured.journeys;
        let query = async || stage.get(&["query", "one"], &[]).await;
        journeys.push(self.journey(stage, "query of a name", query).await?);
        for (name, file, size) in
            [("get of 1 KB", "one", stage::ONE_BYTES), ("get of a large file", "big", self.size)]
        {
            let get = async || stage.get(&["get", file], &[file.to_owned()]).await;
            let journey = self.journey(stage, name, get).await?;
            let plain = self.journey(stage, name, async || stage.plain(size).await).await?;
            journeys.push(journey.beside("TCP", plain.took_s()));
            measured.plain = plain.carried;
        }
        let mut rsync = None;
        if stage.rsync().await?.is_some() {
            let get = async || Ok(stage.rsync().await?.unwrap_or(f64::NAN));
            rsync = Some(self.journey(stage, "rsync", get).await?);
        }
        for (name, words) in [
            ("get of small files by names", ["get", "--names-from", stage::NAMES].as_slice()),
            ("get of a folder of small files", &["get", "many/"]),
        ] {
            let journey = self.journey(stage, name, async || stage.get(words, &stage.small).await).await?;
            journeys
                .push(rsync.iter().fold(journey, |journey, rsync| journey.beside("rsync", rsync.took_s())));
        }
        let mut follower = stage.follow().await?;
        let mut seed = self.seed;
        let update = async || {
            seed += 1;
            stage.update(seed).await
        };
        journeys.push(self.journey(stage, "small update to a follower", update).await?);
        follower.kill().await?;
        if self.readers > 0 {
            measured.crowd = Some(self.crowd(stage).await?);
        }
        Ok(())
    }

    /// Makes it again and again; `make` says how long it took.
    async fn journey(
        &self,
        stage: &Stage,
        name: &'static str,
        mut make: impl AsyncFnMut() -> Result<f64>,
    ) -> Result<Journey> {
        let mut journey = Journey { name, took_s: Vec::new(), carried: Vec::new(), beside: None };
        for _ in 0..self.rounds {
            stage.wan.take_carried();
            journey.took_s.push(make().await.context(name)?);
            journey.carried = stage.wan.take_carried();
        }
        stage.on.watch.add_done(1);
        Ok(journey)
    }

    /// One reader alone, and then all of them at once, at their rate.
    async fn crowd(&self, stage: &Stage) -> Result<Row> {
        let wire = self.wire(self.readers_rate);
        (ORIGIN..stage.wan.hosts()).for_each(|host| stage.wan.set(host, wire));
        let alone_s = stage.crowd(1).await?;
        stage.wan.take_carried();
        let took_s = stage.crowd(self.readers).await?;
        let sent = stage.wan.take_carried().into_iter().filter(|packet| packet.from == ORIGIN);
        let copies = bytes(sent.map(|packet| packet.data as u64).sum()) / bytes(self.size);
        stage.on.watch.add_done(1);
        Ok(Row::of(json!({
            "scenario": "readers at once", "readers": self.readers, "mbit": self.readers_rate, "took_s": took_s,
            "alone_s": alone_s, "times_single": took_s / alone_s, "origin_copies": copies,
        })))
    }
}

impl Journey {
    fn took_s(&self) -> f64 {
        median(self.took_s.iter().copied())
    }

    fn beside(mut self, what: &'static str, took_s: f64) -> Self {
        self.beside = Some((what, took_s));
        self
    }

    fn row(&self, rtt_s: f64) -> Row {
        let mine = || self.carried.iter().filter(|packet| packet.from == READER || packet.to == READER);
        let connections = mine().filter(|packet| packet.opens && packet.from == READER).count();
        let moved: usize = mine().map(|packet| packet.bytes).sum();
        let took_s = self.took_s();
        let row = Row::named(self.name).and(Row::of(json!({
            "took_s": took_s, "round_trips": took_s / rtt_s, "flights": flights(&self.carried, READER),
            "connections": connections, "moved_mib": mib(moved as u64),
        })));
        self.beside.iter().fold(row, |row, (what, beside_s)| {
            row.with("beside", *what).with("beside_s", *beside_s).with("ratio", took_s / beside_s)
        })
    }

    /// Bytes that came to the reader by when, from the first packet on.
    fn arrivals(label: &str, carried: &[Packet]) -> (String, Points) {
        let began = carried.first().map_or(Duration::ZERO, |first| first.sent);
        let step = carried.len().div_ceil(POINTS_MAX).max(1);
        let mut come = 0;
        let came = carried.iter().filter(|packet| packet.to == READER).map(|packet| {
            come += packet.data as u64;
            (packet.arrived.saturating_sub(began).as_secs_f64(), mib(come))
        });
        (label.to_owned(), came.step_by(step).collect())
    }
}

impl Measured {
    fn journey(&self, name: &str) -> Option<&Journey> {
        self.journeys.iter().find(|journey| journey.name == name)
    }

    fn goals(&self, far: &Far) -> Vec<Goal> {
        let rtt_s = far.rtt_s();
        let bounds: [(&str, GoalOf); 6] = [
            ("query of a name", |rtt_s, _| 3.0 * rtt_s + 0.03),
            ("get of 1 KB", |rtt_s, _| 6.0 * rtt_s + 0.05),
            ("get of a large file", |rtt_s, beside_s| beside_s + 5.0 * rtt_s),
            ("get of small files by names", |_, beside_s| beside_s),
            ("get of a folder of small files", |_, beside_s| beside_s),
            ("small update to a follower", |rtt_s, _| 2.5 * rtt_s),
        ];
        let goals = bounds.into_iter().filter_map(|(name, bound)| {
            let journey = self.journey(name)?;
            let bound = bound(rtt_s, journey.beside.map_or(f64::NAN, |(_, beside_s)| beside_s));
            let goal = Goal::new(format!("{name}, s"), Bound::AtMost(bound), journey.took_s(), "profile far");
            bound.is_finite().then_some(goal)
        });
        let crowd = self.crowd.iter().map(|crowd| {
            let what = format!("{} readers at once, times one alone", far.readers);
            Goal::new(what, Bound::AtMost(READERS_TIMES), crowd.get("times_single"), "profile far")
        });
        goals.chain(crowd).collect()
    }

    /// Every packet of TCP of the last time that each journey was made; 0 is the indexer, 1 the origin, 2 the reader.
    fn packets(&self) -> Vec<Row> {
        let of = |journey: &Journey| {
            let began = journey.carried.first().map_or(Duration::ZERO, |first| first.sent);
            let ms = move |at: Duration| at.saturating_sub(began).as_secs_f64() * 1e3;
            let row = move |packet: &Packet, name| {
                Row::of(json!({
                    "scenario": name, "sent_ms": ms(packet.sent), "arrived_ms": ms(packet.arrived), "from": packet.from,
                    "to": packet.to, "from_port": packet.ports.0, "to_port": packet.ports.1, "data": packet.data,
                    "opens": packet.opens,
                }))
            };
            journey.carried.iter().map(|packet| row(packet, journey.name)).collect::<Vec<_>>()
        };
        self.journeys.iter().flat_map(of).collect()
    }

    fn report(&self, far: &Far, on: &Deployment) -> Report {
        let rows: Vec<Row> = self.journeys.iter().map(|journey| journey.row(far.rtt_s())).collect();
        let large = self.journey("get of a large file");
        let arrivals = large.map(|large| Journey::arrivals("nekop2p", &large.carried));
        let arrivals: Lines =
            arrivals.into_iter().chain([Journey::arrivals("plain TCP", &self.plain)]).collect();
        let keys = [
            ("flights", "flights"),
            ("connections", "connections opened"),
            ("round_trips", "time / round trip"),
        ];
        let few: Vec<Row> =
            rows.iter().filter(|row| row.get("flights") < FLIGHTS_SHOWN_MAX).cloned().collect();
        let names = few.iter().enumerate().map(|(n, row)| format!("{} {}", n + 1, row.text("scenario")));
        let charts = vec![
            bars("journey", "number", &few, &keys),
            lines("s since the first packet", "MiB that came", arrivals),
        ];
        let title = format!("Journeys at {} ms of round trip, {} Mbit/s", far.rtt, far.rate);
        let picture = Picture::new("far", title, names.collect::<Vec<_>>().join(", "), charts);
        let mut sections = vec![Section::new("", COLUMNS, rows)];
        let crowd = self.crowd.iter().cloned();
        sections.extend(crowd.map(|row| Section::new("Readers at once", READER_COLUMNS, vec![row])));
        sections.extend(far.goals.then(|| goals::section(&self.goals(far))));
        Report {
            kind: Some("far"),
            head: format!(
                "One indexer, one origin, and readers on hosts of their own: {} ms of round trip, {} ms of jitter, {} % of \
                 packets lost, {} Mbit/s each way; a large file of {}, {} small files; {}.",
                far.rtt, far.jitter, far.loss, far.rate, units::shown(far.size), far.files, on.in_words()
            ),
            sections,
            foot: vec![
                "Each journey begins with an empty folder and a new process, but for the update, from the `share` to the file in \
                 its place. Flights: connections that the reader opened, and turns in which it sent data after it had received \
                 some; of several connections at once they overlap. TCP: a question and as many bytes over a new connection."
                    .to_owned(),
            ],
            facts: Row::default().with("seed", far.seed),
            pictures: vec![picture],
            csv: Some((PACKET_COLUMNS.to_owned(), Box::new(self.packets().into_iter()))),
            ..Report::default()
        }
    }
}

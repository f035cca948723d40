//! What an indexer does: it grows to a number of names; a peer with many registrations leaves, and searches by glob go through
//! all names, beside lookups that may notice.

use nekoproto::{FindRequest, Names, QueryAllRequest, Search, Term, Terms, limits::FOUND_MAX};

use super::subject::{Known, Subject, Timing};
use super::{Index, Tables, Whose, inside::Costs, inside::Inside, name_of, sign};
use crate::scenarios::prelude::*;

/// Records signed, and then registered, at a time: only the registering is timed.
const CHUNK: usize = 10_000;
/// Names that lookups and renewals are drawn from, spread over all that are registered.
const SAMPLE_MAX: usize = 10_000;
const REGISTERING: usize = 4;
const BATCH: usize = 100;
const LOOKING_UP: usize = 64;

/// Registers `names` names, at the indexer and at the index without a network. Returns how long each
/// part took with the number of names after it, and a sample of the records; less if stopped.
async fn fill(
    subject: &Subject,
    inside: &mut Inside,
    names: usize,
    seed: u64,
) -> Result<(Vec<(usize, Timing)>, Vec<SignedRecord>)> {
    let _progress = Progress::begin(&format!("{names} names"), names, subject.net.watch());
    let (mut registered, mut sample) = (Vec::new(), Vec::new());
    let keep_every = names.div_ceil(SAMPLE_MAX);
    let ends = [names / 10, names - names / 10, names];
    let mut from = 0;
    while from < names && !subject.net.watch().is_stopped() {
        let end = ends.into_iter().filter(|end| *end > from).fold(from + CHUNK, usize::min);
        let records = sign(Whose::Own, seed, from..end);
        inside.register(&records);
        let signed: Vec<SignedRecord> = records.iter().map(VerifiedRecord::to_signed).collect();
        registered.push((end, subject.register(&signed, BATCH, REGISTERING).await?));
        let kept = signed.into_iter().zip(from..end).filter(|(_, n)| n % keep_every == 0);
        sample.extend(kept.map(|(record, _)| record));
        from = end;
    }
    Ok((registered, sample))
}

const IN_FLIGHT: usize = 16;
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Names of the peer that stays, which are looked up.
const STAYING_NAMES: usize = amount(10_000);
const ROUNDS: usize = amount(5);

type Glob = (&'static str, fn(usize) -> bool);
/// Globs, and the names that they match by number: one with letters that few names have, and one that is compared with each name.
const GLOBS: [Glob; 2] = [
    ("*7777.bin", |n| n % 10_000 == 7777),
    ("data-set/p*7?77?7.bin", |n| n % 10 == 7 && n / 100 % 100 == 77 && n / 100_000 % 10 == 7),
];
const SEARCHES: usize = amount(50);

impl Tables {
    /// Fills an indexer, and measures it when it is full; returns a sample of the names and what they cost
    /// without a network, or `None` if stopped before.
    pub(super) async fn grow(&mut self, subject: &Subject, names: usize) -> Result<Option<(Known, Costs)>> {
        let memory =
            || subject.net.nodes[0].of_process(machine::rss_bytes).context("the indexer's memory is unknown");
        let mut inside = Inside::new(subject.client.at());
        let empty = memory()?;
        let (filled, kept) = fill(subject, &mut inside, names, self.options.seed).await?;
        if subject.net.watch().is_stopped() {
            return Ok(None);
        }
        let bytes_per_name = bytes(memory()?.saturating_sub(empty)) / count(names);
        let sample = Known::known_to(&inside, kept);
        let renewed = subject.register(&sample.records, BATCH, REGISTERING).await?;
        let (hits, misses) = subject.hits_and_misses(&sample, LOOKING_UP, self.options.lookups).await?;
        let costs = inside.costs(&sample.records, &sample.missing);
        let tenth = names / 10;
        let part = |is_in: &dyn Fn(usize) -> bool| {
            Timing::sum(filled.iter().filter(|(end, _)| is_in(*end)).map(|(_, timing)| timing))
        };
        let registered = part(&|_| true);
        let lookups = [("hits, 64 in flight", &hits), ("misses, 64 in flight", &misses)];
        for (what, timing) in [("register", &registered), ("renew", &renewed)].into_iter().chain(lookups) {
            let mut row = self.row(format!("{names} names, {what}"), timing).with("names", names);
            if what == "register" {
                let [first, last] = [part(&|end| end <= tenth), part(&|end| end > names - tenth)];
                row = row.and(Row::of(json!({
                    "bytes_per_name": bytes_per_name, "first_tenth_per_s": first.per_s(), "last_tenth_per_s": last.per_s(),
                    "inside_hit_us": costs.hit_us, "inside_miss_us": costs.miss_us, "inside_verify_us": costs.verify_us,
                    "inside_register_us": costs.register_us,
                })));
            }
            self.grown.push(row);
        }
        self.find(subject, &sample, names).await?;
        let operation = format!("registration, own and new, of {names} names");
        self.share(operation, &registered, costs.register_us);
        Ok(Some((sample, costs)))
    }

    /// Has a peer with `names` registrations leave, several times; less often if stopped.
    pub(super) async fn leave(&mut self, subject: &Subject, names: usize) -> Result<()> {
        let (watch, &Index { seed, lookups, .. }) = (subject.net.watch(), &self.options);
        let identity = Whose::Copies.identity(seed);
        let leaver = subject.net.client(0, identity).await?;
        let sample = Known::of(&sign(Whose::Own, seed, 0..STAYING_NAMES), subject.client.at());
        subject.client.register_all(&sample.records).await?;
        let leaving = sign(Whose::Copies, seed, STAYING_NAMES..STAYING_NAMES + names);
        let leaving: Vec<_> = leaving.iter().map(VerifiedRecord::to_signed).collect();
        let _progress = Progress::begin(&format!("{names} leave"), ROUNDS * (names + lookups), watch);
        let (mut longest, mut quiet, mut busy) = (Duration::ZERO, Timing::default(), Timing::default());
        for _ in (0..ROUNDS).take_while(|_| !watch.is_stopped()) {
            leaver.register_all(&leaving).await?;
            watch.add_done(names as u64);
            let goes_on = |n| n < lookups && !watch.is_stopped();
            let before = subject.look_up_while(&sample, true, goes_on, IN_FLIGHT).await?;
            let leave = async {
                let sent = Instant::now();
                let done = leaver.calls.deregister_all(call_until(sent + ANSWER_WITHIN)).await;
                anyhow::Ok((done??, sent.elapsed()).1)
            };
            let (took, meanwhile) = subject.look_up_beside(&sample, IN_FLIGHT, leave).await?;
            let gone = Names::first_of(leaving.iter().map(|record| record.unverified().name.clone()));
            let answers = leaver
                .calls
                .query_all(call_until(Instant::now() + ANSWER_WITHIN), QueryAllRequest::new(gone, 0))
                .await??;
            let is_gone = answers.iter().flatten().all(|answer| answer.hits.is_empty());
            ensure!(is_gone, "a peer that left is still found");
            longest = longest.max(took);
            quiet = Timing::sum([&quiet, &before]);
            busy = Timing::sum([&busy, &meanwhile]);
        }
        let before = self.row(format!("lookups before {names} leave"), &quiet);
        let meanwhile = self
            .row(format!("lookups while {names} leave"), &busy)
            .with("left_after_ms", longest.as_secs_f64() * 1e3)
            .with("p99_ratio", busy.figures().p99 / quiet.figures().p99);
        self.left.extend([before, meanwhile].map(|row| row.with("names", names)));
        Ok(())
    }

    /// Searches all `names`, alone and beside lookups of the `sample`. Every answer is checked.
    async fn find(&mut self, subject: &Subject, sample: &Known, names: usize) -> Result<()> {
        let cpu = || {
            subject.net.nodes[0].of_process(machine::cpu_s).context("the indexer's processor time is unknown")
        };
        for (glob, matches) in GLOBS {
            let search = Search { terms: Terms::first_of([Term::new(glob)?]), ..Search::default() };
            let expected: Vec<String> = (0..names).filter(|n| matches(*n)).map(name_of).collect();
            let searching = |_| {
                let (request, expected) = (FindRequest::new(search.clone(), 0), &expected);
                async move {
                    let sent = Instant::now();
                    let reply =
                        subject.client.calls.find(call_until(sent + ANSWER_WITHIN), request).await??;
                    let found = reply.hits.iter().map(|hit| hit.record.unverified().name.as_str());
                    let is_right = reply.complete && found.eq(expected.iter().take(FOUND_MAX));
                    ensure!(is_right, "wrong names match {glob}");
                    Ok((1, sent.elapsed()))
                }
            };
            let searches = || Timing::of(stream::iter(0..SEARCHES).map(&searching), 1);
            let began = cpu()?;
            let alone = searches().await?;
            let cpu_ms = (cpu()? - began) * 1e3 / count(SEARCHES);
            let lookups = self.options.lookups;
            let before = subject.look_up_while(sample, true, |n| n < lookups, IN_FLIGHT).await?;
            let (beside, busy) = subject.look_up_beside(sample, IN_FLIGHT, searches()).await?;
            let ratio = busy.figures().p99 / before.figures().p99;
            let row = |what: &str, timing| self.row(format!("{names} names, {what} {glob}"), timing);
            let rows = [
                row("search", &alone).with("cpu_ms", cpu_ms),
                row("lookups before", &before),
                row("lookups beside", &busy).with("p99_ratio", ratio),
                row("search beside lookups", &beside),
            ];
            self.found.extend(rows.map(|row| row.with("names", names)));
        }
        Ok(())
    }
}

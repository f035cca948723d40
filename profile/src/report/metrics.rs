//! Every figure of the results: its key, what people read, its decimals, and which way is better.

/// Which way a figure should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// A single one more is a regression.
    NoMore,
    /// Compared, but decided too much by chance to be a regression.
    Shown,
    /// Not compared.
    Aside,
}

/// One figure of the results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    /// Its key in JSON and CSV.
    pub(crate) key: &'static str,
    /// The heading of its column, with its unit.
    pub(crate) label: &'static str,
    /// Which way it should go.
    pub(crate) better: Better,
    decimals: Option<usize>,
}

impl Metric {
    /// `figure` with the decimals of this metric; without a fixed number, with about three digits.
    pub(crate) fn shown(&self, figure: f64) -> String {
        let decimals = self.decimals.unwrap_or(match figure.abs() {
            whole if whole.fract() == 0.0 || whole >= 100.0 => 0,
            middle if middle >= 10.0 => 1,
            _ => 3,
        });
        format!("{figure:.decimals$}")
    }
}

/// The metric with this key; one that is not listed is labelled by its key.
pub(crate) fn metric(key: &'static str) -> Metric {
    METRICS.into_iter().find(|metric| metric.key == key).unwrap_or(free(key, key, Better::Aside))
}

const fn fixed(key: &'static str, label: &'static str, better: Better, decimals: usize) -> Metric {
    Metric { key, label, better, decimals: Some(decimals) }
}

const fn free(key: &'static str, label: &'static str, better: Better) -> Metric {
    Metric { key, label, better, decimals: None }
}

/// All that have a heading or a direction of their own; comparisons follow this order.
pub(crate) const METRICS: [Metric; 102] = [
    free("goal", "what", Better::Aside),
    fixed("first", "after warm-up", Better::Aside, 1),
    fixed("last", "at the end", Better::Aside, 1),
    fixed("per_hour", "growth an hour", Better::Aside, 1),
    fixed("noise", "noise", Better::Aside, 1),
    free("bound", "goal", Better::Aside),
    fixed("scenario", "what", Better::Aside, 0),
    fixed("min_us", "min us", Better::Aside, 1),
    fixed("mean_us", "mean us", Better::Lower, 1),
    fixed("p50_us", "p50 us", Better::Lower, 1),
    fixed("p90_us", "p90 us", Better::Lower, 1),
    fixed("p99_us", "p99 us", Better::Lower, 1),
    fixed("p999_us", "p99.9 us", Better::Aside, 1),
    fixed("max_us", "max us", Better::Shown, 1),
    fixed("queries_per_s", "queries/s", Better::Higher, 0),
    fixed("per_s", "a second", Better::Higher, 0),
    fixed("shared_per_s", "shared/s", Better::Higher, 0),
    fixed("lookups_per_s", "lookups/s", Better::Higher, 0),
    fixed("messages_per_query", "messages/query", Better::Lower, 2),
    fixed("floor_us", "floor us", Better::Shown, 1),
    fixed("ratio_to_floor", "p50 / floor", Better::Shown, 2),
    fixed("rss_mib", "resident MiB", Better::Shown, 1),
    fixed("forerunner_published_us", "forerunner, published mean us", Better::Aside, 0),
    fixed("forerunner_rebuilt_us", "forerunner, rebuilt mean us", Better::Aside, 0),
    fixed("dropped", "dropped: no hops left", Better::Aside, 0),
    fixed("grown_mib", "grown, MiB", Better::Aside, 2),
    fixed("sent", "offered", Better::Aside, 0),
    fixed("again", "sent again", Better::Aside, 0),
    fixed("lost", "lost", Better::NoMore, 0),
    fixed("unaccounted", "unaccounted", Better::NoMore, 0),
    fixed("held_back_ms", "held back p50 ms", Better::Aside, 1),
    fixed("took_p50_ms", "p50 ms", Better::Shown, 1),
    fixed("took_p99_ms", "p99 ms", Better::Shown, 1),
    fixed("cpu_percent", "% of a core", Better::Shown, 0),
    fixed("mbytes_per_s", "MB/s", Better::Aside, 0),
    fixed("in_per_s", "in/s", Better::Higher, 0),
    fixed("out_per_s", "out/s", Better::Higher, 0),
    fixed("own_p50_us", "in it p50 us", Better::Lower, 1),
    fixed("own_p99_us", "p99 us", Better::Shown, 1),
    fixed("link_p50_us", "to the next p50 us", Better::Lower, 1),
    fixed("link_p99_us", "p99 us", Better::Shown, 1),
    fixed("idle_links", "directed links", Better::Aside, 0),
    fixed("idle_percent", "% of a core, all processes", Better::Shown, 1),
    fixed("idle_us", "us of CPU/s for each link", Better::Lower, 1),
    fixed("first_tenth_per_s", "first tenth/s", Better::Aside, 0),
    fixed("last_tenth_per_s", "last tenth/s", Better::Aside, 0),
    fixed("bytes_per_name", "bytes/name", Better::Lower, 0),
    fixed("left_after_ms", "left after ms, longest", Better::Aside, 1),
    fixed("p99_ratio", "p99 / p99 before", Better::Aside, 2),
    fixed("register_us", "register us", Better::Lower, 2),
    fixed("look_up_us", "look up us", Better::Lower, 2),
    fixed("times_single", "times single", Better::Higher, 1),
    fixed("us_each", "us each", Better::Aside, 2),
    fixed("index_us", "index us", Better::Aside, 2),
    fixed("index_percent", "index %", Better::Aside, 1),
    fixed("ipc_percent", "IPC %", Better::Aside, 1),
    free("wall_s", "until the last reader is done, s", Better::Aside),
    free("first_s", "until the first reader is done, s", Better::Aside),
    free("ratio_tcp", "in floors of raw TCP", Better::Lower),
    free("mb_per_s", "MB/s, all readers together", Better::Higher),
    free("files_shared_per_s", "files shared a second", Better::Higher),
    free("files_fetched_per_s", "files fetched a second", Better::Higher),
    free("share_s", "sharing, s", Better::Lower),
    free("floor_tcp_s", "floor: raw TCP to a file, s", Better::Aside),
    free("floor_copy_s", "floor: copied by the system, s", Better::Aside),
    free("floor_read_write_s", "floor: read and written, s", Better::Aside),
    free("ratio_copy", "in copies by the system", Better::Aside),
    free("ratio_read_write", "in reads and writes", Better::Aside),
    free("cpu_s_per_gib_sender", "CPU s for each GiB, senders", Better::Aside),
    free("cpu_s_per_gib_receiver", "CPU s for each GiB, readers", Better::Aside),
    free("moved_percent", "moved of what changed, % of the file", Better::Lower),
    free("peak_mib_sender", "peak of memory, sender, MiB", Better::Shown),
    free("peak_mib_receiver", "peak of memory, reader, MiB", Better::Shown),
    free("origin_copies", "sent by the origin, copies", Better::Aside),
    free("moved_copies", "moved in all, copies", Better::Aside),
    free("moved_mib", "moved in all, MiB", Better::Aside),
    free("extra_percent", "moved beyond what was wanted, %", Better::Aside),
    free("banned", "sources banned", Better::Aside),
    fixed("invalid_percent", "invalid results, %", Better::Lower, 3),
    fixed("invalid_late_percent", "after one delay, %", Better::Lower, 3),
    fixed("stale_percent", "stale as fresh, %", Better::Lower, 3),
    fixed("theory_percent", "1-(1-e^-x)/x, %", Better::Aside, 3),
    fixed("off_points", "off, points", Better::Aside, 3),
    fixed("off_asked_points", "off by questions, points", Better::Aside, 3),
    fixed("fidelity_percent", "fidelity, %", Better::Higher, 3),
    fixed("fresh_percent", "served as fresh, %", Better::Higher, 3),
    fixed("stale_mean_s", "stale for, s", Better::Lower, 3),
    fixed("stale_max_s", "longest, s", Better::Lower, 3),
    fixed("messages_per_update", "messages/update", Better::Lower, 2),
    fixed("questions_per_update", "questions/update", Better::Lower, 2),
    fixed("all_per_update", "both/update", Better::Lower, 2),
    fixed("bytes_per_update", "bytes/update", Better::Lower, 0),
    fixed("origin_per_update", "calls of the origin/update", Better::Lower, 2),
    fixed("flood", "flooding", Better::Aside, 0),
    fixed("past_bound", "past the bound", Better::NoMore, 0),
    fixed("went_back", "older after newer", Better::NoMore, 0),
    fixed("never_shared", "never shared", Better::NoMore, 0),
    fixed("twice", "came twice", Better::Aside, 0),
    fixed("two_contents", "two contents", Better::NoMore, 0),
    free("hits_wrong", "wrong", Better::NoMore),
    free("wrong", "wrong files", Better::NoMore),
    free("errors", "errors", Better::NoMore),
];

//! Every figure of the results: what people read, its decimals, and which way is better.

/// Which way a figure should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// A single one more is a regression.
    NoMore,
    /// Compared, but decided too much by chance to be a regression.
    Shown,
}

/// The headings of columns that do not follow from their keys.
const HEADINGS: &str = "goal: what; first: after warm-up; last: at the end; per_hour: growth an hour; bound: goal; scenario: what; \
    p999_us: p99.9 us; per_s: a second; ratio_to_floor: p50 / floor; rss_mib: resident MiB; \
    forerunner_published_us: forerunner, published mean us; forerunner_rebuilt_us: forerunner, rebuilt mean us; \
    dropped: dropped: no hops left; grown_mib: grown, MiB; sent: offered; again: sent again; \
    held_back_ms: held back p50 ms; took_p50_ms: p50 ms; took_p99_ms: p99 ms; cpu_percent: % of a core; \
    mbytes_per_s: MB/s; own_p50_us: in it p50 us; own_p99_us: p99 us; link_p50_us: to the next p50 us; \
    link_p99_us: p99 us; idle_links: directed links; idle_percent: % of a core, all processes; \
    idle_us: us of CPU/s for each link; left_after_ms: left after ms, longest; p99_ratio: p99 / p99 before; \
    ipc_percent: IPC %; wall_s: until the last reader is done, s; first_s: until the first reader is done, s; \
    ratio_tcp: in floors of raw TCP; mb_per_s: MB/s, all readers together; \
    files_shared_per_s: files shared a second; files_fetched_per_s: files fetched a second; \
    share_s: sharing, s; floor_tcp_s: floor: raw TCP to a file, s; \
    floor_copy_s: floor: copied by the system, s; floor_read_write_s: floor: read and written, s; \
    ratio_copy: in copies by the system; ratio_read_write: in reads and writes; \
    cpu_s_per_gib_sender: CPU s for each GiB, senders; cpu_s_per_gib_receiver: CPU s for each GiB, readers; \
    moved_percent: moved of what changed, % of the file; peak_mib_sender: peak of memory, sender, MiB; \
    peak_mib_receiver: peak of memory, reader, MiB; origin_copies: sent by the origin, copies; \
    moved_copies: moved in all, copies; moved_mib: moved in all, MiB; \
    extra_percent: moved beyond what was wanted, %; banned: sources banned; \
    invalid_percent: invalid results, %; invalid_late_percent: after one delay, %; \
    stale_percent: stale as fresh, %; theory_percent: 1-(1-e^-x)/x, %; off_points: off, points; \
    off_asked_points: off by questions, points; fidelity_percent: fidelity, %; \
    fresh_percent: served as fresh, %; stale_mean_s: stale for, s; stale_max_s: longest, s; \
    all_per_update: both/update; origin_per_update: calls of the origin/update; flood: flooding; \
    past_bound: past the bound; went_back: older after newer; twice: came twice; hits_wrong: wrong; \
    wrong: wrong files";

/// The keys of the figures that are compared, in this order; the others are not.
const COMPARED: [(Better, &str); 4] = [
    (
        Better::Lower,
        "mean_us p50_us p90_us p99_us messages_per_query own_p50_us link_p50_us idle_us bytes_per_name \
         register_us look_up_us ratio_tcp share_s moved_percent invalid_percent invalid_late_percent \
         stale_percent stale_mean_s stale_max_s messages_per_update questions_per_update all_per_update \
         bytes_per_update origin_per_update",
    ),
    (
        Better::Higher,
        "queries_per_s per_s shared_per_s lookups_per_s in_per_s out_per_s times_single mb_per_s \
         files_shared_per_s files_fetched_per_s fidelity_percent fresh_percent",
    ),
    (
        Better::Shown,
        "max_us floor_us ratio_to_floor rss_mib took_p50_ms took_p99_ms cpu_percent own_p99_us link_p99_us \
         idle_percent peak_mib_sender peak_mib_receiver",
    ),
    (
        Better::NoMore,
        "lost unaccounted past_bound went_back never_shared two_contents hits_wrong wrong errors",
    ),
];

/// The keys of the figures with no, one, two and three decimals; the others have about three digits.
const DECIMALS: [&str; 4] = [
    "queries_per_s per_s shared_per_s lookups_per_s forerunner_published_us forerunner_rebuilt_us \
     dropped sent again lost unaccounted cpu_percent mbytes_per_s in_per_s out_per_s idle_links \
     first_tenth_per_s last_tenth_per_s bytes_per_name bytes_per_update flood past_bound went_back \
     never_shared twice two_contents",
    "first last per_hour noise min_us mean_us p50_us p90_us p99_us p999_us max_us floor_us rss_mib \
     held_back_ms took_p50_ms took_p99_ms own_p50_us own_p99_us link_p50_us link_p99_us idle_percent \
     idle_us left_after_ms times_single index_percent ipc_percent",
    "messages_per_query ratio_to_floor grown_mib p99_ratio register_us look_up_us us_each index_us \
     messages_per_update questions_per_update all_per_update origin_per_update",
    "invalid_percent invalid_late_percent stale_percent theory_percent off_points off_asked_points \
     fidelity_percent fresh_percent stale_mean_s stale_max_s",
];

/// The heading of the column of this key, with its unit.
pub(crate) fn heading(key: &str) -> String {
    let known =
        HEADINGS.split("; ").filter_map(|known| known.split_once(": ")).find(|(known, _)| *known == key);
    let own =
        || key.replace("_per_", "/").replace("_percent", " %").replace("_mib", " MiB").replace('_', " ");
    known.map_or_else(own, |(_, heading)| heading.to_owned())
}

pub(crate) fn shown(key: &str, figure: f64) -> String {
    let fixed = DECIMALS.iter().position(|keys| keys.split(' ').any(|known| known == key));
    let decimals = fixed.unwrap_or(match figure.abs() {
        whole if whole.fract() == 0.0 || whole >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        _ => 3,
    });
    format!("{figure:.decimals$}")
}

pub(crate) fn compared() -> impl Iterator<Item = (&'static str, Better)> {
    COMPARED.into_iter().flat_map(|(better, keys)| keys.split(' ').map(move |key| (key, better)))
}

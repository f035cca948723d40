//! The goals of the transfer.

use super::{case::Case, case::What, figures::Rounds, measure};
use crate::report::units::shown;
use crate::run::{files::Bulk, files::Change, files::How};
use crate::scenarios::prelude::*;

const CAP: Option<NonZeroU64> = NonZeroU64::new(50_000_000);
const READERS: usize = 8;
/// The sparse file is this many times as large.
const SPARSE_TIMES: u64 = 16;
const PEAK_MIB: f64 = 64.0;

/// Small files, unless told otherwise.
pub const FILES: usize = 10_000;

/// What is measured, of which figure, and what it should be.
type FigureAim = (String, Figure, Bound);

#[derive(Clone, Copy)]
enum Figure {
    Median(&'static str),
    /// The largest of the rounds, where none may be worse.
    Largest(&'static str),
    InTimesOfLast(&'static str),
}

fn peaks(size: u64, how: &str) -> Vec<FigureAim> {
    let what = |side| format!("{}, {how}: peak of memory of the {side}, MiB", shown(size));
    let peaks = [("sender", "peak_mib_sender"), ("reader", "peak_mib_receiver")];
    peaks.map(|(side, key)| (what(side), Figure::Largest(key), Bound::AtMost(PEAK_MIB))).into()
}

/// All cases of a large file, and of small ones, with their goals, in order.
fn plan(whole: &Case, small: &Case) -> Vec<(Case, Vec<FigureAim>)> {
    use Bound::{AtLeast, AtMost, Exactly};
    use Figure::{InTimesOfLast, Largest, Median};
    // What caps or chunks decide comes out the same every time, and no floor is held against it.
    let once = Case { rounds: 1, floors: false, ..whole.clone() };
    let What::Whole(bulk @ Bulk { size, .. }) = whole.what else { return Vec::new() };
    let sparse = Bulk { size: size.saturating_mul(SPARSE_TIMES), sparse: true };
    let one_source = |security, name: &str, most| {
        let what = format!("one source, {name}, in floors of raw TCP to a file");
        let ratio = (what, Median("ratio_tcp"), AtMost(most));
        (Case { security, ..whole.clone() }, [ratio].into_iter().chain(peaks(size, name)).collect())
    };
    let change = |how: How| {
        let what = format!("1 % changed at 20 places, {}: moved, %", option_name(&how));
        let change = Change { percent: 1.0, places: 20, how };
        let moved = (what, Median("moved_percent"), AtMost(3.0));
        (Case { what: What::Change(bulk, change), ..once.clone() }, vec![moved])
    };
    let capped = Case { cap_up: CAP, cap_down: CAP, ..once.clone() };
    let corrupts = "one of four sources corrupts 1 % of the chunks";
    let last = format!("{READERS} readers, 50 MB/s up and down each: the last, in times of one alone");
    let sent = format!("{READERS} readers: sent by the origin, copies");
    let (four, share) =
        ("four sources of 50 MB/s each, MB/s".to_owned(), format!("share {}, s", shown(size)));
    let files = small.name();
    vec![
        one_source(Security::Insecure, "plain TCP", 1.1),
        one_source(Security::Tls, "TLS", 1.35),
        (Case { sources: 4, cap_up: CAP, ..once.clone() }, vec![(four, Median("mb_per_s"), AtLeast(190.0))]),
        (
            Case { sources: 4, corrupt: Some(1.0), ..once.clone() },
            vec![
                (format!("{corrupts}: banned"), Median("banned"), Exactly(1.0)),
                (format!("{corrupts}: extra bytes, %"), Largest("extra_percent"), AtMost(1.0)),
            ],
        ),
        (capped.clone(), Vec::new()),
        (
            Case { readers: READERS, ..capped },
            vec![(last, InTimesOfLast("wall_s"), AtMost(1.6)), (sent, Median("origin_copies"), AtMost(1.5))],
        ),
        change(How::InPlace),
        change(How::Insert),
        (
            small.clone(),
            vec![
                (format!("{files}: shared a second"), Median("files_shared_per_s"), AtLeast(3000.0)),
                (format!("{files}: fetched a second"), Median("files_fetched_per_s"), AtLeast(2000.0)),
            ],
        ),
        (Case { what: What::Publish(bulk), ..whole.clone() }, vec![(share, Median("share_s"), AtMost(0.6))]),
        (Case { what: What::Whole(sparse), ..once }, peaks(sparse.size, "sparse")),
    ]
}

/// All that is measured, to be checked before anything begins.
pub fn cases([whole, small]: &[Case; 2]) -> Vec<Case> {
    plan(whole, small).into_iter().map(|(case, _)| case).collect()
}

/// Measures all goals; fewer if stopped. A file that is wrong, or did not arrive, breaks a promise.
pub(crate) async fn run([whole, small]: &[Case; 2], place: &str, deployment: &Deployment) -> Report {
    let (mut goals, mut all_well, mut last) = (Vec::new(), true, None::<Rounds>);
    for (case, aims) in plan(whole, small) {
        let measured = measure(&case, deployment).await;
        if deployment.watch.is_stopped() {
            break;
        }
        let measured = measured.unwrap_or_else(|fault| {
            note(&format!("{}: {:#}", case.name(), fault.parts().1));
            Rounds { case: case.clone(), rounds: Vec::new() }
        });
        measured.errors().for_each(|error| note(&format!("{}: {error}", case.name())));
        all_well &= measured.is_all_well();
        for (what, figure, bound) in aims {
            let is = match figure {
                Figure::Median(key) => measured.median(key),
                Figure::Largest(key) => measured.largest(key),
                Figure::InTimesOfLast(key) => {
                    let last = last.as_ref().and_then(|last| last.median(key));
                    measured.median(key).zip(last).map(|(is, last)| is / last)
                }
            };
            // What was not fetched to its end reaches none.
            let is = is.filter(|_| measured.errors().next().is_none()).unwrap_or(f64::NAN);
            let (command, all_right) = (case.command(), measured.is_right());
            goals.push(Goal { what, bound, measured: is, command, all_right });
        }
        last = Some(measured);
    }
    let place = format!("{place}.\n");
    Report { is_broken: !all_well, ..goals::report(&goals, &place, deployment.watch.is_stopped()) }
}

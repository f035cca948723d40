//! What an origin answers when it is asked about one version of one of its files, and what the answer means.

use nekoproto::{Held, Record, Verdict, VerifiedRecord, Verifier};

use super::freshness::NoAnswer;

/// The answer about `held`. `own` is the version published here under that name, and a later one that was published with
/// this key elsewhere; `hands_out` says whether others may be told of a version.
pub(crate) fn verdict(
    own: Option<(&VerifiedRecord, Option<&VerifiedRecord>)>,
    held: &Held,
    hands_out: impl FnOnce(&Record) -> bool,
) -> Verdict {
    let Some((record, elsewhere)) = own else { return Verdict::Unpublished };
    let newest = elsewhere.unwrap_or(record);
    if elsewhere.is_none() && (record.version, record.content) == (held.version, held.content) {
        Verdict::Current
    } else if newest.version <= held.version || (elsewhere.is_none() && !hands_out(newest)) {
        Verdict::Unknown
    } else {
        Verdict::Newer(Box::new(newest.to_signed()))
    }
}

/// What the answer about `held` says of `newest`, the newest version that is known of it, or the same.
pub(crate) fn of_newest(newest: &VerifiedRecord, held: &VerifiedRecord, verdict: Verdict) -> Verdict {
    match verdict {
        verdict if newest == held => verdict,
        Verdict::Newer(record) if *record.unverified() == **newest => Verdict::Current,
        Verdict::Newer(record) if record.unverified().replaces(newest) => Verdict::Newer(record),
        // It does not know of the newest one.
        Verdict::Newer(_) | Verdict::Current | Verdict::Unknown => Verdict::Unknown,
        Verdict::Unpublished => Verdict::Unpublished,
    }
}

/// The later version of which the answer about `known` tells; `None`: there is none.
pub(crate) fn later(
    known: &VerifiedRecord,
    verdict: Option<Verdict>,
    verifier: &Verifier,
) -> Result<Option<VerifiedRecord>, NoAnswer> {
    match verdict {
        Some(Verdict::Current) => Ok(None),
        Some(Verdict::Newer(record)) => {
            let later = verifier.verify(*record).ok().filter(|record| record.replaces(known));
            later.map(Some).ok_or(NoAnswer::Away)
        }
        Some(Verdict::Unpublished) => Err(NoAnswer::Withdrawn),
        Some(Verdict::Unknown) | None => Err(NoAnswer::Away),
    }
}

#[cfg(test)]
mod tests {
    use testkit::goods;

    use super::*;

    fn record(version: u64, content: u8) -> VerifiedRecord {
        goods::of_content(1, "a", version, content)
    }

    #[test]
    fn only_the_version_itself_is_current_and_only_a_number_that_stands_is_handed_out() {
        let (own, elsewhere) = (record(5, 5), record(7, 7));
        let said = |held: &VerifiedRecord, elsewhere, stands| {
            let held = Held { name: held.name.clone(), version: held.version, content: held.content };
            verdict(Some((&own, elsewhere)), &held, |_| stands)
        };
        let newer = |record: &VerifiedRecord| Verdict::Newer(Box::new(record.to_signed()));
        assert_eq!(said(&own, None, false), Verdict::Current, "who holds it was handed it");
        assert_eq!(said(&record(5, 6), None, true), Verdict::Unknown, "other bytes under its number");
        assert_eq!(said(&record(6, 6), None, true), Verdict::Unknown, "a later number");
        assert_eq!(said(&record(4, 4), None, true), newer(&own));
        let of_4 = said(&record(4, 4), None, false);
        assert_eq!(of_4, Verdict::Unknown, "its number may have been used before");
        assert_eq!(said(&own, Some(&elsewhere), false), newer(&elsewhere), "published elsewhere");
        let held = Held { name: own.name.clone(), version: own.version, content: own.content };
        assert_eq!(verdict(None, &held, |_| true), Verdict::Unpublished);
    }
    #[test]
    fn answer_about_what_is_in_place_is_one_about_the_newest_that_is_known() {
        let (held, newest) = (record(4, 4), record(5, 5));
        let newer = |record: &VerifiedRecord| Verdict::Newer(Box::new(record.to_signed()));
        let said = |verdict| of_newest(&newest, &held, verdict);
        assert_eq!(said(newer(&newest)), Verdict::Current);
        assert_eq!(said(newer(&record(6, 6))), newer(&record(6, 6)));
        for older in [newer(&record(5, 6)), Verdict::Current, Verdict::Unknown] {
            assert_eq!(said(older), Verdict::Unknown, "it does not know of it");
        }
        assert_eq!(said(Verdict::Unpublished), Verdict::Unpublished);
        assert_eq!(of_newest(&held, &held, Verdict::Current), Verdict::Current);
    }
}

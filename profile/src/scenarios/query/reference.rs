//! What the project's forerunner reached on the same scenarios: the public nekop2p 0.2.0, whose
//! indexers are asked for names that nobody has, so that each of its times is for an empty answer.

/// Mean response times of the forerunner in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reference {
    /// As its authors published them, on their machine.
    pub(crate) published_us: Option<f64>,
    /// As measured on 2026-11-21, built with `--release`, on 2 cores of an AMD EPYC; infinite where it did
    /// not come to an end.
    pub(crate) rebuilt_us: f64,
}

const ROWS: [(&str, Option<f64>, f64); 8] = [
    ("1/1/0", Some(63.07), 92.0),
    ("1/10/0", Some(155.02), 244.0),
    ("10/1/1", Some(788.83), 1140.0),
    ("10/5/1", Some(1440.0), 2430.0),
    ("10/10/1", Some(2280.0), 5580.0),
    ("10/30/1", Some(6320.0), 14_900.0),
    ("10/30/2", Some(9000.0), 19_200.0),
    ("10/30/3", None, f64::INFINITY),
];

/// The forerunner's figures for the scenario called `name`, where it has any.
pub(crate) fn of(name: &str) -> Option<Reference> {
    let (_, published_us, rebuilt_us) = ROWS.into_iter().find(|(of, ..)| *of == name)?;
    Some(Reference { published_us, rebuilt_us })
}

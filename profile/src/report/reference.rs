//! What the project's forerunner reached on the same scenarios: the public nekop2p 0.2.0, whose
//! indexers are asked for names that nobody has, so that each of its times is for an empty answer.

/// Mean response times of the forerunner in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// As its authors published them, on their machine.
    pub published_us: Option<f64>,
    /// As measured on 2026-11-21, built with `--release`, on 2 cores of an AMD EPYC;
    /// `None` where it was not run.
    pub rebuilt: Option<Rebuilt>,
}

/// How the forerunner did when it was built and run again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rebuilt {
    /// Its mean response time in microseconds.
    Mean(f64),
    /// It did not come to an end.
    DoesNotFinish,
}

const ROWS: [(&str, Option<f64>, Option<Rebuilt>); 8] = [
    ("1/1/0", Some(63.07), Some(Rebuilt::Mean(92.0))),
    ("1/10/0", Some(155.02), Some(Rebuilt::Mean(244.0))),
    ("10/1/1", Some(788.83), Some(Rebuilt::Mean(1140.0))),
    ("10/5/1", Some(1440.0), Some(Rebuilt::Mean(2430.0))),
    ("10/10/1", Some(2280.0), Some(Rebuilt::Mean(5580.0))),
    ("10/30/1", Some(6320.0), Some(Rebuilt::Mean(14_900.0))),
    ("10/30/2", Some(9000.0), Some(Rebuilt::Mean(19_200.0))),
    ("10/30/3", None, Some(Rebuilt::DoesNotFinish)),
];

/// The forerunner's figures for the scenario called `name`, where it has any.
#[must_use]
pub fn of(name: &str) -> Option<Reference> {
    let (_, published_us, rebuilt) = ROWS.into_iter().find(|(of, ..)| *of == name)?;
    Some(Reference { published_us, rebuilt })
}

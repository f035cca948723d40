//! A guard against regressions that a noisy machine can trust: the instructions of the hot functions,
//! counted by valgrind and compared with recorded numbers.
//!
//! Each function is run twice, with different numbers of rounds; the difference of the two counts is
//! the rounds' alone, without the start of the program.

pub mod hot;

use crate::compare::tolerance;
use crate::outcome::{Begin, Fault, Outcome, print};
use crate::prelude::*;
use crate::report::outputs::{OutFile, read};
use crate::report::{aligned, bytes, machine, option_name};
use crate::run::watch::note;

pub use hot::{Hot, run};

/// Where the recorded numbers are, from the top of the repository.
pub const RECORDED: &str = "profile/instructions.json";
const FEW: u32 = 2_000;
const MANY: u32 = 12_000;

/// Instructions of the hot functions.
#[derive(Args)]
pub(crate) struct Instructions {
    /// Record what is counted instead of comparing with what is recorded
    #[arg(long, conflicts_with = "count")]
    record: bool,
    /// File of the recorded numbers
    #[arg(long, value_name = "FILE", default_value = RECORDED)]
    recorded: PathBuf,
    /// By how much a function may exceed its recorded number, as a share
    #[arg(long, default_value_t = 0.05, value_parser = tolerance)]
    tolerance: f64,
    /// Run one function and count nothing; started by the others, under valgrind
    #[arg(long, hide = true, requires = "times")]
    count: Option<Hot>,
    /// How often
    #[arg(long, hide = true)]
    times: Option<u32>,
}

impl Instructions {
    pub(crate) fn run(&self) -> Result<Outcome, Fault> {
        if let (Some(hot), Some(times)) = (self.count, self.times) {
            let runtime = Builder::new_current_thread().enable_all().build().or_cannot_begin()?;
            let _within = runtime.enter(); // the table of message ids needs a timer
            run(hot, times)?;
            return Ok(Outcome::Done);
        }
        if self.record {
            let file = OutFile::prepare(&self.recorded).or_cannot_begin()?;
            let counted = serde_json::to_value(count_all().or_cannot_begin()?).or_cannot_begin()?;
            let path = file.write(|out| Ok(writeln!(out, "{counted:#}")?))?;
            print(&format!("wrote {}", path.display()))?;
            return Ok(Outcome::Done);
        }
        let recorded = self.recorded.display();
        let cannot =
            format!("cannot read the recorded numbers in {recorded} (run it from the top of the repository)");
        let recorded = read(&self.recorded, &cannot)?;
        let (table, off) =
            judge(&recorded, &count_all().or_cannot_begin()?, self.tolerance).or_cannot_begin()?;
        print(&table)?;
        Outcome::judged(&off, "off by more than the tolerance")
    }
}

/// Instructions of one round of each function, and what they were counted on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// The processor's architecture; counts of another cannot be compared.
    pub arch: String,
    /// The compiler; another may make more or fewer of the same code.
    pub rustc: String,
    pub instructions: BTreeMap<String, f64>,
}

/// Counts the instructions of every hot function, in processes of this program under valgrind.
fn count_all() -> Result<Counts> {
    let is_release = !cfg!(debug_assertions);
    ensure!(is_release, "the recorded numbers are of release builds: run it with `cargo run --profile dist`");
    let mut instructions = BTreeMap::new();
    for hot in Hot::value_variants() {
        note(&format!("counting {}", option_name(hot)));
        let rounds = count(*hot, MANY)?.saturating_sub(count(*hot, FEW)?);
        instructions.insert(option_name(hot), (bytes(rounds) / f64::from(MANY - FEW)).round());
    }
    Ok(Counts { arch: std::env::consts::ARCH.to_owned(), rustc: machine::RUSTC.to_owned(), instructions })
}

/// Instructions of a whole process that runs `hot` `times` times.
fn count(hot: Hot, times: u32) -> Result<u64> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]).arg(program);
    valgrind.args(["instructions", "--count", &option_name(&hot), "--times", &times.to_string()]);
    let output = valgrind
        .stdin(Stdio::null())
        .output()
        .context("cannot run valgrind, which counts the instructions (Debian: apt-get install valgrind)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed: {}", said.trim());
    parse_count(&said).with_context(|| format!("valgrind printed no count: {}", said.trim()))
}

/// The number in cachegrind's line `==123== I   refs:      1,234,567` (`I refs:` in later versions).
pub fn parse_count(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains(" I ") && line.contains("refs:"))?;
    line.rsplit(':').next()?.trim().replace(',', "").parse().ok()
}

/// Compares `counted` with what is `recorded`, each function within the share `tolerance`: a table, and in
/// words what is off, which is more instructions than recorded, or nothing recorded.
pub fn judge(recorded: &Counts, counted: &Counts, tolerance: f64) -> Result<(String, Vec<String>)> {
    if recorded.arch != counted.arch {
        bail!("the recorded numbers are of {}, this machine is {}", recorded.arch, counted.arch);
    }
    let heads = ["instructions of", "recorded", "counted", "ratio", ""].map(str::to_owned);
    let (mut lines, mut off) = (vec![heads.to_vec()], Vec::new());
    for (name, now) in &counted.instructions {
        let Some(before) = recorded.instructions.get(name) else {
            off.push(format!("{name}: nothing is recorded, it has {now:.0} now"));
            continue;
        };
        let ratio = if now == before { 1.0 } else { now / before };
        let mark = match ratio {
            ratio if ratio > 1.0 + tolerance => {
                off.push(format!("{name}: {before:.0} instructions became {now:.0} ({ratio:.2} x)"));
                "more"
            }
            ratio if ratio < 1.0 - tolerance => "fewer: worth recording",
            _ => "",
        };
        let [was, is] = [*before, *now].map(|count| format!("{count:.0}"));
        lines.push(vec![name.clone(), was, is, format!("{ratio:.3} x"), mark.to_owned()]);
    }
    for name in recorded.instructions.keys().filter(|name| !counted.instructions.contains_key(*name)) {
        off.push(format!("{name}: recorded, but not counted any more"));
    }
    Ok((aligned(&lines), off))
}

//! Files and folders that results go to: tried out before the run, so that nobody waits for figures
//! that cannot be kept; nothing is there before the end.

use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempPath;

use super::{Report, write_csv};
use crate::outcome::{Begin, Fault};
use crate::plot::save;
use crate::prelude::*;

/// Where the results go.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// Write the results into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Results, and pictures of them.
#[derive(Clone, Debug, Args)]
pub(crate) struct Drawn {
    #[command(flatten)]
    output: Output,
    /// Draw pictures into this folder, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// Results, pictures, and all that they are made of.
#[derive(Clone, Debug, Args)]
pub(crate) struct Detailed {
    #[command(flatten)]
    drawn: Drawn,
    /// Write every single request or round into this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub(crate) trait Paths: Args + Sync {
    /// Of the JSON, of the CSV, and of the folder of the pictures.
    fn paths(&self) -> [Option<&Path>; 3];
}

impl Paths for Output {
    fn paths(&self) -> [Option<&Path>; 3] {
        [self.json.as_deref(), None, None]
    }
}

impl Paths for Drawn {
    fn paths(&self) -> [Option<&Path>; 3] {
        [self.output.json.as_deref(), None, self.plot.as_deref()]
    }
}

impl Paths for Detailed {
    fn paths(&self) -> [Option<&Path>; 3] {
        let [json, _, plot] = self.drawn.paths();
        [json, self.csv.as_deref(), plot]
    }
}

#[derive(Debug)]
pub struct Outputs {
    json: Option<OutFile>,
    csv: Option<OutFile>,
    plots: Option<PathBuf>,
}

impl Outputs {
    /// Makes sure that all of these can be written; nothing is left there if not.
    pub fn prepare([json, csv, plots]: [Option<&Path>; 3]) -> Result<Self> {
        let [json, csv] = [json, csv].map(|path| path.map(OutFile::prepare).transpose());
        let plots = plots.map(usable).transpose();
        Ok(Self { json: json?, csv: csv?, plots: plots? })
    }

    /// Writes the report for machines, its single requests or rounds, and its pictures; says what was written.
    pub(crate) fn write(self, report: &mut Report) -> Result<String> {
        let json = self.json.map(|file| file.write(|out| Ok(writeln!(out, "{:#}", report.json())?)));
        let csv = self.csv.zip(report.csv.take());
        let csv = csv.map(|(file, (keys, rows))| file.write(|out| Ok(write_csv(out, &keys, rows)?)));
        let mut written: Vec<PathBuf> = json.into_iter().chain(csv).collect::<Result<_, _>>()?;
        if let Some(folder) = self.plots {
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make the plot folder {}", folder.display()))?;
            for picture in &report.pictures {
                written.extend(save(&folder, picture)?);
            }
        }
        Ok(written.iter().map(|path| format!("wrote {}\n", path.display())).collect())
    }
}

/// A file to be written at the end; until then nothing is at its place.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    file: File,
    /// Where the file is until it is written, and then. What is no regular file, such as a pipe or a device, is written
    /// where it is.
    beside: Option<(TempPath, PathBuf)>,
}

impl OutFile {
    /// Makes sure that `path` can be written.
    pub fn prepare(path: &Path) -> Result<Self> {
        let (file, beside) = open(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, beside })
    }

    /// Writes it with `write` and puts it in its place.
    pub fn write(self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<PathBuf> {
        let mut out = BufWriter::new(&self.file);
        let written = write(&mut out).and_then(|()| Ok(out.flush()?));
        drop(out);
        let placed = written.and_then(|()| match self.beside {
            Some((file, place)) => Ok(file.persist(place)?),
            None => Ok(()),
        });
        placed.with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(self.path)
    }
}

fn open(path: &Path) -> io::Result<(File, Option<(TempPath, PathBuf)>)> {
    // What is there already may be reached by a link: the link stays, and the file is written.
    let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&place).is_ok_and(|known| !known.is_file()) {
        return Ok((File::options().write(true).open(&place)?, None));
    }
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.permissions(fs::Permissions::from_mode(0o666)); // less what the user's umask says
    let (file, beside) = builder.tempfile_in(folder.unwrap_or_else(|| Path::new(".")))?.into_parts();
    Ok((file, Some((beside, place))))
}

/// What an earlier run wrote; `cannot` is said if there is none.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, cannot: &str) -> Result<T, Fault> {
    let text = fs::read_to_string(path).with_context(|| cannot.to_owned()).or_cannot_begin()?;
    serde_json::from_str(&text).with_context(|| cannot.to_owned()).or_cannot_begin()
}

/// Makes sure that files can be written in `folder`, which is made once there are some.
fn usable(folder: &Path) -> Result<PathBuf> {
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or_else(|| Path::new("."));
    let cannot = || format!("cannot use the plot folder {}", folder.display());
    tempfile::tempfile_in(there).with_context(cannot)?;
    Ok(folder.to_owned())
}

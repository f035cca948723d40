//! Files and folders that results go to: tried out before the run, so that nobody waits for figures
//! that cannot be kept, and gone again if there are none.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::{fs, io, os::unix::fs::PermissionsExt};

use anyhow::Context;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::plot::{Picture, save};

/// All that a command writes.
#[derive(Debug)]
pub struct Outputs {
    json: Option<OutFile>,
    csv: Option<OutFile>,
    plots: Option<OutFolder>,
    written: Vec<PathBuf>,
}

impl Outputs {
    /// Makes sure that all of these can be written; nothing is left there if not.
    pub fn prepare(json: Option<&Path>, csv: Option<&Path>, plots: Option<&Path>) -> anyhow::Result<Self> {
        let [json, csv] = [json, csv].map(|path| path.map(OutFile::prepare).transpose());
        let plots = plots.map(OutFolder::prepare).transpose();
        Ok(Self { json: json?, csv: csv?, plots: plots?, written: Vec::new() })
    }

    pub(crate) fn write_json(mut self, value: &Value) -> anyhow::Result<Self> {
        let text = serde_json::to_string_pretty(value)?;
        let written = self.json.take().map(|file| file.write(|out| Ok(writeln!(out, "{text}")?)));
        self.written.splice(0..0, written.transpose()?);
        Ok(self)
    }

    pub(crate) fn write_csv(
        mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<Self> {
        let written = self.csv.take().map(|file| file.write(|out| Ok(write(out)?)));
        self.written.extend(written.transpose()?);
        Ok(self)
    }

    /// Draws pictures, each called by its name.
    pub(crate) fn draw(mut self, pictures: impl FnOnce() -> Vec<(String, Picture)>) -> anyhow::Result<Self> {
        if let Some(folder) = self.plots.take() {
            for (name, picture) in pictures() {
                self.written.extend(save(&folder.path, &name, &picture)?);
            }
        }
        Ok(self)
    }

    pub(crate) fn written(&self) -> String {
        self.written.iter().map(|path| format!("wrote {}\n", path.display())).collect()
    }
}

/// A file to be written at the end; until then nothing is at its place.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    open: Open,
}

#[derive(Debug)]
enum Open {
    /// Written beside its place, then renamed into it: the name is that of the file itself.
    Beside(NamedTempFile, PathBuf),
    /// Something that is no regular file, such as a pipe or a device: written where it is.
    There(fs::File),
}

impl OutFile {
    /// Makes sure that `path` can be written.
    pub fn prepare(path: &Path) -> anyhow::Result<Self> {
        let open = open(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), open })
    }

    /// Writes it with `write` and puts it in its place.
    pub fn write(self, write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<PathBuf> {
        let mut out = BufWriter::new(match &self.open {
            Open::Beside(file, _) => file.as_file(),
            Open::There(file) => file,
        });
        let written = write(&mut out).and_then(|()| Ok(out.flush()?));
        drop(out);
        let placed = written.and_then(|()| match self.open {
            Open::Beside(file, place) => Ok(file.persist(place).map(drop)?),
            Open::There(_) => Ok(()),
        });
        placed.with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(self.path)
    }
}

fn open(path: &Path) -> io::Result<Open> {
    // What is there already may be reached by a link: the link stays, and the file is written.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Ok(known) if known.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(known) if !known.is_file() => {
            return Ok(Open::There(fs::OpenOptions::new().write(true).open(&path)?));
        }
        Ok(_) | Err(_) => {}
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.permissions(fs::Permissions::from_mode(0o666)); // less what the user's umask says
    Ok(Open::Beside(builder.tempfile_in(folder.unwrap_or_else(|| Path::new(".")))?, path))
}

/// A folder for pictures. Folders that were made for it are removed again if they stay empty.
#[derive(Debug)]
pub struct OutFolder {
    /// Where the pictures go.
    pub path: PathBuf,
    /// Folders made for it, the innermost first.
    made: Vec<PathBuf>,
}

impl OutFolder {
    /// Makes sure that files can be written in `path`.
    pub fn prepare(path: &Path) -> anyhow::Result<Self> {
        let missing =
            path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let folder = Self { path: path.to_owned(), made: missing.map(Path::to_owned).collect() };
        let tried = fs::create_dir_all(path).and_then(|()| tempfile::tempfile_in(path));
        tried.with_context(|| format!("cannot use the plot folder {}", path.display()))?;
        Ok(folder)
    }
}

impl Drop for OutFolder {
    fn drop(&mut self) {
        for folder in &self.made {
            // Fails where there are files now, and there it should stay.
            let _ = fs::remove_dir(folder);
        }
    }
}

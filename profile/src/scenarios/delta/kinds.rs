//! The kinds of files that are made, each with its next version.

use std::fmt::Write;

use rand::Rng;

use crate::prelude::*;

/// A file and its next version.
#[derive(Clone, Debug)]
pub(super) struct VersionPair {
    pub(super) name: String,
    pub(super) old: PathBuf,
    pub(super) new: PathBuf,
}

/// Makes a pair of this name in this folder, of so many bytes, by this seed; `None` where a program that it needs is not
/// installed.
type Make = fn(&str, &Path, u64, u64) -> Result<Option<VersionPair>>;

pub(super) const KINDS: [(&str, Make); 5] =
    [("table", table), ("log", log), ("image", image), ("sources", sources), ("sqlite", sqlite)];

/// Of so many rows of a table one changes; as many thousandths are added.
const ROWS_PER_CHANGE: usize = 400;
const BLOCK_BYTES: usize = 4096;
/// Of so many blocks of an image one changes.
const BLOCKS_PER_CHANGE: usize = 64;

impl VersionPair {
    pub(super) fn of(old: &Path, new: &Path) -> Result<Option<Self>> {
        let name = new.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        Ok(Some(Self { name, old: old.canonicalize()?, new: new.canonicalize()? }))
    }

    fn write(
        name: &str,
        folder: &Path,
        old: impl AsRef<[u8]>,
        new: impl AsRef<[u8]>,
    ) -> Result<Option<Self>> {
        let pair = Self { name: name.to_owned(), old: folder.join("old"), new: folder.join("new") };
        fs::write(&pair.old, old)?;
        fs::write(&pair.new, new)?;
        Ok(Some(pair))
    }
}

fn row(number: usize, random: &mut StdRng) -> String {
    let (value, group, day) =
        (random.random::<f64>(), random.random_range(0..10_000), random.random_range(1..29));
    format!("{number},{},{value:.6},name{group},2026-01-{day:02}\n", random.random_range(0..1_000_000))
}

/// Rows of numbers, of which some change, and some are added.
fn table(name: &str, folder: &Path, size: u64, seed: u64) -> Result<Option<VersionPair>> {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut rows, mut bytes) = (Vec::new(), 0u64);
    while bytes < size {
        rows.push(row(rows.len(), &mut random));
        bytes += rows.last().map_or(0, |row| row.len() as u64);
    }
    let old = rows.concat();
    for _ in 0..rows.len() / ROWS_PER_CHANGE {
        let number = random.random_range(0..rows.len());
        rows[number] = row(number, &mut random);
    }
    let added: Vec<String> = (0..rows.len() / 200).map(|n| row(rows.len() + n, &mut random)).collect();
    VersionPair::write(name, folder, old, rows.concat() + &added.concat())
}

/// Lines, to which a fiftieth is added.
fn log(name: &str, folder: &Path, size: u64, seed: u64) -> Result<Option<VersionPair>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut text = String::new();
    let mut grow = |text: &mut String, size: u64| {
        while (text.len() as u64) < size {
            let (id, ms) = (random.random::<u32>(), random.random_range(1..5000));
            let _ = writeln!(text, "2026-01-02T03:04:05Z INFO request{{id={id:08x}}}: answered in {ms} ms"); // a string takes all
        }
    };
    grow(&mut text, size);
    let old = text.clone();
    grow(&mut text, size + size / 50);
    VersionPair::write(name, folder, old, text)
}

/// Blocks, of which some change, half of them to noise.
fn image(name: &str, folder: &Path, size: u64, seed: u64) -> Result<Option<VersionPair>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut old = vec![0; usize::try_from(size)?];
    for block in old.chunks_mut(BLOCK_BYTES) {
        match random.random_range(0..3) {
            0 => {}
            1 => random.fill_bytes(block),
            _ => block.iter_mut().for_each(|byte| *byte = random.random_range(b'a'..b'q')),
        }
    }
    let mut new = old.clone();
    for _ in 0..old.len() / BLOCK_BYTES / BLOCKS_PER_CHANGE {
        let at = random.random_range(0..old.len() / BLOCK_BYTES) * BLOCK_BYTES;
        match random.random() {
            true => random.fill_bytes(&mut new[at..at + BLOCK_BYTES]),
            false => new[at..at + BLOCK_BYTES / 8].fill(7),
        }
    }
    VersionPair::write(name, folder, old, new)
}

/// Files of functions one after the other, as in an archive: some functions change, some files are new, some moved.
fn sources(name: &str, folder: &Path, size: u64, seed: u64) -> Result<Option<VersionPair>> {
    let mut random = StdRng::seed_from_u64(seed);
    let words: Vec<String> =
        (0..2000).map(|_| format!("{:x}", random.random::<u32>() >> random.random_range(0..16))).collect();
    let line = |random: &mut StdRng| {
        let mut word = || words[random.random_range(0..words.len())].as_str();
        format!("    let {} = {}({}, {}.{})?;\n", word(), word(), word(), word(), word())
    };
    let function = |random: &mut StdRng| {
        let lines: String = (0..random.random_range(3..40)).map(|_| line(random)).collect();
        format!(
            "fn {}() -> Result<()> {{\n{lines}    Ok(())\n}}\n\n",
            words[random.random_range(0..words.len())]
        )
    };
    let (mut all, mut bytes) = (Vec::<Vec<String>>::new(), 0u64);
    while bytes < size {
        let file: Vec<String> = (0..random.random_range(2..30)).map(|_| function(&mut random)).collect();
        bytes += file.iter().map(|function| function.len() as u64).sum::<u64>();
        all.push(file);
    }
    let text = |all: &[Vec<String>]| all.iter().flatten().map(String::as_str).collect::<String>();
    let old = text(&all);
    for _ in 0..all.len() / 4 {
        let (file, made) = (random.random_range(0..all.len()), function(&mut random));
        let at = random.random_range(0..all[file].len());
        all[file][at] = made;
    }
    for _ in 0..all.len() / 20 {
        let moved = all.remove(random.random_range(0..all.len()));
        let to = random.random_range(0..=all.len());
        all.insert(to, moved);
    }
    VersionPair::write(name, folder, old, text(&all))
}

/// A database, of which rows change and are added.
fn sqlite(name: &str, folder: &Path, size: u64, seed: u64) -> Result<Option<VersionPair>> {
    let rows = size / 60;
    let pair = VersionPair { name: name.to_owned(), old: folder.join("old"), new: folder.join("new") };
    // Numbers that look like chance and are the same each time.
    let value = format!("abs((n * 2654435761 + {seed}) % 1000003)");
    let fill = |from: u64, to: u64| {
        format!(
            "WITH RECURSIVE s(n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM s WHERE n < {to}) \
             INSERT INTO t SELECT n, {value}, 'name' || ({value} % 997), hex({value} * 7919) FROM s;"
        )
    };
    let make = "CREATE TABLE t(id INTEGER PRIMARY KEY, value INTEGER, name TEXT, code TEXT); CREATE INDEX i ON t(value);";
    let run = |file: &Path, sql: &str| Command::new("sqlite3").arg(file).arg(sql).status();
    match run(&pair.old, &format!("{make}{}", fill(1, rows))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        made => ensure!(made?.success(), "sqlite3 cannot make a database"),
    }
    fs::copy(&pair.old, &pair.new)?;
    let change =
        format!("UPDATE t SET value = value + 1 WHERE id % 500 = 3; {}", fill(rows + 1, rows + rows / 100));
    ensure!(run(&pair.new, &change)?.success(), "sqlite3 cannot change a database");
    Ok(Some(pair))
}

//! Shows jobs.

use std::io;

use super::{
    View,
    table::{Cells, JsonList, Table},
};
use crate::{
    cli::{
        Ended,
        output::Output,
        units::{age_since, size},
    },
    commands::{JobRow, Row, Summary},
    json::JobJson,
};

const HEADINGS: [&str; 7] = ["ID", "KIND", "NAME", "STATE", "DONE", "STARTED", ""];

/// A table, or `{"jobs":[...]}`.
pub(super) struct Jobs {
    table: Table,
    list: JsonList,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { table: Table::new(&HEADINGS, &[0, 5]).sparing(&[5, 1]), list: JsonList::new("jobs") }
    }
}

impl View for Jobs {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        let jobs = rows.iter().filter_map(|row| if let Row::Job(job) = row { Some(job) } else { None });
        if output.is_json() {
            return self.list.add(jobs.map(JobJson::from), output);
        }
        let mut cells = Cells::default();
        jobs.for_each(|job| add_cells(&mut cells, job));
        self.table.rows(&cells, output.lines())
    }

    fn finish(&mut self, _: Summary, output: Output) -> io::Result<Ended> {
        if output.is_json() {
            self.list.end(&[], output)?;
        } else if !self.table.is_begun() {
            output.note("no job runs here");
        }
        Ok(Ended::Well)
    }

    fn abandon(&mut self, output: Output) -> io::Result<()> {
        self.list.abandon(&[], output)
    }
}

fn add_cells(cells: &mut Cells, job: &JobRow) {
    cells.add(job.id);
    cells.add(job.kind.word());
    cells.add(&job.name);
    cells.add(job.state.word());
    match job.now.total {
        0 => cells.add(size(job.now.done)),
        total => cells.add(format_args!("{} of {}", size(job.now.done), size(total))),
    }
    cells.add(age_since(job.started_ms).map_or_else(String::new, |age| format!("{age} ago")));
    cells.add(job.error.as_deref().unwrap_or_default());
}

/// A line for each job that was begun or cancelled, or an object.
#[derive(Default)]
pub(super) struct Lines;

impl View for Lines {
    fn rows(&mut self, rows: Vec<Row>, output: Output) -> io::Result<()> {
        for row in &rows {
            let (job, line) = match row {
                Row::Job(job) => {
                    (job, format!("job {} runs in the background: {} {}", job.id, job.kind.word(), job.name))
                }
                Row::Cancelled(job) => {
                    (job, format!("job {} {}: {} {}", job.id, job.state.word(), job.kind.word(), job.name))
                }
                _ => continue,
            };
            if output.is_json() { output.object(&JobJson::from(job))? } else { output.line(&line)? }
        }
        Ok(())
    }
}

//! Shows jobs.

use std::io;

use nekoindexer::daemon::settings::advice;

use super::{Lines, View, parsed};
use crate::{
    api::{Done, JobRow, Row},
    terminal::{
        Output,
        table::{Cells, Table},
        units::{age_since, size},
    },
};

const HEADINGS: [&str; 7] = ["ID", "KIND", "NAME", "STATE", "DONE", "STARTED", ""];

pub(in crate::api) struct Jobs {
    table: Table,
    is_empty: bool,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { table: Table::new(&HEADINGS, &[0, 5]).sparing(&[5, 1]), is_empty: true }
    }
}

impl View for Jobs {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        let mut cells = Cells::default();
        parsed(rows).for_each(|job| add_cells(&mut cells, &job));
        self.is_empty &= cells.is_empty();
        self.table.print(&cells, output)
    }

    fn finish(&mut self, _: &Done, output: Output) -> io::Result<()> {
        if self.is_empty {
            output.note("no job runs here");
        }
        Ok(())
    }
}

fn add_cells(cells: &mut Cells, job: &JobRow) {
    cells.add(job.id);
    cells.add(job.kind);
    cells.add(&job.name);
    cells.add(job.state);
    match job.now.total {
        0 => cells.add(size(job.now.done)),
        total => cells.add(format_args!("{} of {}", size(job.now.done), size(total))),
    }
    cells.add(format_args!("{} ago", age_since(job.started_ms)));
    let why = job.error.as_deref().or(job.why.as_deref()).unwrap_or_default();
    cells.add(format_args!("{why}{}", advice(job.remedy)));
}

/// A line for each job, with what it does, or its state.
pub(in crate::api) fn lines(what: Option<&'static str>) -> Box<dyn View> {
    Lines::of(move |job: JobRow, output| {
        let what = what.map_or_else(|| job.state.to_string(), str::to_owned);
        output.text(&format!("job {} {what}: {} {}", job.id, job.kind, job.name))
    })
}

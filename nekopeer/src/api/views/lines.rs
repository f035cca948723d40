//! [`Lines`]: an answer whose rows are lines.

use std::{io, marker::PhantomData};

use serde::de::DeserializeOwned;

use super::{View, parsed, tell_failed};
use crate::{
    api::{Done, Row},
    terminal::Output,
};

/// Shows each row by a function, and what failed as notes.
pub(in crate::api) struct Lines<T, F> {
    show: F,
    rows: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static, F: FnMut(T, Output) -> io::Result<()> + 'static> Lines<T, F> {
    /// Rows of this type, shown so.
    pub(in crate::api) fn of(show: F) -> Box<dyn View> {
        Box::new(Self { show, rows: PhantomData })
    }
}

impl Lines<(), fn((), Output) -> io::Result<()>> {
    pub(in crate::api) fn none() -> Box<dyn View> {
        Self::of(|(), _| Ok(()))
    }
}

impl<T: DeserializeOwned, F: FnMut(T, Output) -> io::Result<()>> View for Lines<T, F> {
    fn rows(&mut self, rows: &[Row], output: Output) -> io::Result<()> {
        parsed(rows).try_for_each(|row| (self.show)(row, output))
    }

    fn finish(&mut self, done: &Done, output: Output) -> io::Result<()> {
        tell_failed(done, output);
        Ok(())
    }
}

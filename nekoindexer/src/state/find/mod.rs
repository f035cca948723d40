//! Searches by pattern: which names match, the first page of those listed here, pages merged into one,
//! and of whom they are.

mod matcher;
mod pace;
mod page;
mod pages;
mod reached;

pub use self::{
    matcher::{BadPattern, Matcher},
    pace::WHOLE,
    page::Page,
    pages::{WrongPage, checked, merged},
    reached::Reached,
};
pub(super) use self::{pace::Pace, page::Collecting};

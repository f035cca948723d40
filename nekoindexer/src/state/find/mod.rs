//! Searches by pattern: which names match, the first page of those listed here, pages merged into one,
//! and of whom they are.

mod matcher;
mod page;
mod pages;
mod reached;

pub(super) use self::page::Collecting;
pub use self::{
    matcher::{BadPattern, Matcher},
    page::Page,
    pages::{WrongPage, checked, merged},
    reached::Reached,
};

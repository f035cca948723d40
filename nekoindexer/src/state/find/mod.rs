//! Searches by pattern: which names match, the first page of those listed here, and pages merged into one.

mod matcher;
mod page;
mod pages;

pub(super) use self::page::Collecting;
pub use self::{
    matcher::{BadPattern, Matcher},
    page::Page,
    pages::{WrongPage, checked, merged},
};

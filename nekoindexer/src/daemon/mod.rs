//! Daemon plumbing of both programs: HTTP door, log, settings, signals, threads. Each room names only those above it.
//!
//! | room | what happens there |
//! |---|---|
//! | [`allocator`] | the memory of the programs |
//! | [`http`] | the HTTP door, what it lets in, how it answers errors, figures |
//! | [`logging`] | where the log goes |
//! | [`settings`] | flags, environment, configuration file; `config check`, completions, man pages |
//! | [`signals`] | serving until told to end; what systemd is told |
//! | [`stdout`] | writing to stdout, and its closed pipe |
//! | [`threads`] | how many threads the program runs on |

pub mod allocator;
pub mod http;
pub mod logging;
pub mod settings;
pub mod signals;
pub mod stdout;
pub mod threads;

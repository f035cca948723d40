//! The allocator of the programs: jemalloc on x86-64, which returns freed memory to the system within seconds
//! (`.cargo/config.toml`). Elsewhere it is that of the system, as jemalloc is built for one page size.

#[cfg(not(target_arch = "x86_64"))]
use std::alloc::System as Allocator;

#[cfg(target_arch = "x86_64")]
use tikv_jemallocator::Jemalloc as Allocator;

/// What a program declares as its global allocator.
pub type Global = Allocator;

/// The value of it.
pub const GLOBAL: Global = Allocator;

//! The allocator of the programs: jemalloc, which gives memory back within seconds (`.cargo/config.toml`) and wastes less time on small pieces.
//! Elsewhere than on x86-64 it is that of the system, as jemalloc is built for one size of pages.

#[cfg(not(target_arch = "x86_64"))]
use std::alloc::System as Allocator;

#[cfg(target_arch = "x86_64")]
use tikv_jemallocator::Jemalloc as Allocator;

/// What a program declares as its global allocator.
pub type Global = Allocator;

/// The value of it.
pub const GLOBAL: Global = Allocator;

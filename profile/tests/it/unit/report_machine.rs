//! Tests of `report/machine.rs`.

use profile::report::machine::*;

#[test]
fn this_process_has_memory_and_this_machine_a_processor() {
    assert!(rss_bytes(std::process::id()).is_some_and(|bytes| bytes > 1 << 20));
    assert!(describe()["cores"].as_u64().is_some_and(|cores| cores > 0));
    assert!(!describe()["cpu"].as_str().unwrap().starts_with(':'));
}

//! The executable bit of single files, each node in a process of its own.

use crate::program::*;

fn mode(home: &Home, name: &str) -> u32 {
    fs::metadata(home.path(name)).unwrap().permissions().mode() & 0o777
}

fn set(home: &Home, name: &str, mode: u32) {
    fs::set_permissions(home.path(name), fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn executable_bit_travels_with_a_file_and_what_its_reader_set_stays() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_all([("run", "#!/bin/sh\necho 1\n"), ("plain", "1")]);
    origin.write("large", bytes(1, MIB));
    ["run", "large"].iter().for_each(|name| set(&origin, name, 0o755));
    let _sharing = origin.share(&["run", "plain", "large"]);
    reader.done(&["get", "run", "plain"]);
    reader.done(&["get", "large"]);
    let plain = mode(&reader, "plain");
    assert_eq!(plain & 0o111, 0);
    for name in ["run", "large"] {
        assert_eq!(mode(&reader, name), plain | (plain & 0o444) >> 2, "{name}: as the umask lets it be");
    }

    // The bit alone is a version of its own, of which no bytes move. Only that bit of the copy changes.
    ["run", "large"].iter().for_each(|name| set(&reader, name, 0o700));
    ["run", "large"].iter().for_each(|name| set(&origin, name, 0o644));
    set(&reader, "plain", 0o755);
    origin.write("plain", "2");
    let shared = origin.done(&["share", "run", "plain", "large"]);
    assert_eq!(shared.out.iter().filter(|line| line.contains("version 2")).count(), 3, "{shared:?}");
    let got = reader.done(&["--json", "get", "large"]).json();
    assert_eq!((&got["version"], &got["bytes_moved"]), (&2.into(), &0.into()), "{got}");
    reader.done(&["get", "run", "plain"]);
    assert_eq!(["run", "large", "plain"].map(|name| mode(&reader, name)), [0o600, 0o600, 0o755]);

    // Once it was compared again, the stamp of the file says nothing new.
    set(&origin, "run", 0o755);
    origin.share_anew("large", bytes(2, MIB));
    let shared = origin.done(&["share", "run"]);
    assert!(shared.out.iter().any(|line| line.contains("run version 3")), "{shared:?}");
    reader.done(&["get", "run"]);
    assert_eq!((mode(&reader, "run"), mode(&reader, "plain")), (0o700, 0o755));
    reader.gets("large", bytes(2, MIB));
    // A command that begins anew knows it of the disk.
    assert!(origin.done(&["share", "run"]).out[0].starts_with("unchanged"));
}

#[test]
fn earlier_version_that_is_shared_anew_is_executable_as_it_was() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("run", "one");
    set(&origin, "run", 0o700);
    let _sharing = origin.share(&["run"]);
    let mut keeping = reader.start_out(&["follow", "run", "--keep", "9"], "run is at version 1");
    origin.write("run", "two");
    set(&origin, "run", 0o600);
    origin.done(&["share", "run"]);
    keeping.out_line("run is at version 2");
    for (earlier, version, mode_there) in [("1", 3, 0o700), ("2", 4, 0o600)] {
        origin.done(&["share", "run", "--version", earlier]);
        keeping.out_line(&format!("run is at version {version}"));
        assert_eq!((mode(&origin, "run"), mode(&reader, "run") & 0o100), (mode_there, mode_there & 0o100));
    }
}

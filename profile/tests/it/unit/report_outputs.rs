//! Tests of `report/outputs.rs`.

use profile::report::outputs::*;
use std::fs;
use std::path::Path;

#[test]
fn a_folder_without_pictures_leaves_nothing() {
    let base = tempfile::tempdir().unwrap();
    let inner = base.path().join("a/b");
    drop(OutFolder::prepare(&inner).unwrap());
    assert!(!base.path().join("a").exists());
    let folder = OutFolder::prepare(&inner).unwrap();
    fs::write(folder.path.join("picture"), "").unwrap();
    drop(folder);
    assert!(inner.join("picture").exists());
    drop(OutFolder::prepare(&inner).unwrap());
    assert!(inner.exists(), "it was there before");
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("out.json");
    drop(OutFile::prepare(&path).unwrap());
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    let failing = OutFile::prepare(&path).unwrap().write(|out| {
        out.write_all(b"half")?;
        anyhow::bail!("the end")
    });
    assert!(failing.is_err() && !path.exists());
    OutFile::prepare(&path).unwrap().write(|out| Ok(out.write_all(b"whole")?)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    let link = base.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    OutFile::prepare(&link).unwrap().write(|out| Ok(out.write_all(b"by the link")?)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"by the link");
    OutFile::prepare(Path::new("/dev/null")).unwrap().write(|out| Ok(out.write_all(b"gone")?)).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    assert!(OutFile::prepare(base.path()).is_err());
    assert!(OutFile::prepare(&base.path().join("no/such/file")).is_err());
}

//! Opens a library in a temporary folder, for the unit tests of other rooms.

use std::{path::Path, sync::Arc};

use testkit::values::identity;

use super::{Library, Opened};
use crate::storage::{catalogue::Catalogue, lock::DataLock, share_folder::ShareFolder};

/// That of a peer that starts with this share folder, as [`Peer::spawn`](crate::Peer::spawn) opens it.
pub(crate) fn library(folder: &Path, is_serving: bool) -> Arc<Library> {
    let (share, data_dir) = (ShareFolder::open(folder).unwrap(), folder.join(".neko"));
    let lock = DataLock::take(&data_dir).unwrap();
    let catalogue = Catalogue::open(&data_dir, identity(9)).unwrap();
    catalogue.settle_all().unwrap();
    let opened = Opened { share, data_dir, secret_files: Vec::new(), catalogue, lock };
    Library::new(opened, identity(9).id(), is_serving, 0, None).0
}

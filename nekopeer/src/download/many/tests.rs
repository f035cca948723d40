use testkit::goods;

use super::*;
use crate::{Config, Peer, state::choice::Candidate};

#[tokio::test]
async fn files_are_tried_before_others_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::spawn(Config::new(folder.path())).await.unwrap();
    let located = |name| {
        let record = goods::record(1, name, 1, |_| {});
        let (name, candidates) = (record.name.clone(), vec![Candidate { record, holders: Vec::new() }]);
        (name, Answer { candidates, complete: true, ..Answer::default() })
    };
    let [first, second, third] = ["a", "b", "c"].map(located);
    let (names, known) = ([first.0.clone()], HashMap::from([first.clone()]));
    let (options, progress) = (DownloadOptions::default(), Arc::default());
    let mut downloads = Downloads::new(&peer.downloader, &names, known, &options, &progress);
    let further = downloads.further();
    let next = async |downloads: &mut Downloads| {
        let outcomes = downloads.next().await?;
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_err()), "nobody holds it: {outcomes:?}");
        Some(outcomes.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    };
    assert_eq!(next(&mut downloads).await, Some(vec![first.0]));
    further.send(vec![second.clone(), third.clone()]).await.unwrap();
    assert_eq!(next(&mut downloads).await, Some(vec![second.0, third.0]));
    drop(further);
    assert_eq!(next(&mut downloads).await, None);
}

//! Refetches with peers: copies of a dead origin, and much news of one file, do not hold up the copies of a living one.

use crate::common::*;

fn lasting() -> Policy {
    policy(Mode::Push, 600)
}

fn goods(text: &str, version: u64) -> Goods {
    let content = format!("{text} {version}").into_bytes();
    Goods::with(1, text, version, content, |record| record.policy = lasting())
}

/// A reader that refetches, with a copy of `a` of a living origin and copies of `dead` of one that dies.
struct Stage {
    _indexer: nekoindexer::IndexerHandle,
    from: Folder,
    origin: Node,
    to: Folder,
    reader: Node,
}

impl Stage {
    /// `news` are the versions of the dying origin's files that the reader is told last.
    async fn set(dead: &[&str], news: &[(&str, u64)]) -> Self {
        let indexer = indexer(&[]).await;
        let (from, to) = (Folder::new(), Folder::new());
        let origin = from.peer_with(&[indexer.local_addr()], |config| config.policy = lasting()).await;
        origin.publish(&from.write("a", b"version 1")).await;
        let config = Config { on_stale: OnStale::Refetch, ..to.config(&[indexer.local_addr()]) };
        let mut reader = Node::registered(config).await;
        reader.get("a").await.unwrap();
        reader.peer.check_copies().await;
        let all: Vec<Goods> = dead.iter().map(|text| goods(text, 1)).collect();
        let script = all.clone();
        let dying = Holder::begin(1, move |request| match request {
            DataRequest::Get { content, .. } => {
                script.iter().find(|goods| goods.record.content == *content).unwrap().honest(request)
            }
            _ => ScriptedReply::refusal(FetchRefusal::NotShared),
        });
        dying.register(indexer.local_addr(), all.iter().map(|goods| goods.record.to_signed())).await;
        for text in dead {
            reader.get(text).await.unwrap();
        }
        for (text, version) in news {
            dying.tell(reader.addr(), [goods(text, *version).record.to_signed()]).await.unwrap();
        }
        drop(dying);
        // All attempts have failed once.
        for _ in dead {
            reader.event(|event| matches!(event, Event::Failed { .. }).then_some(())).await;
        }
        Self { _indexer: indexer, from, origin, to, reader }
    }

    async fn refreshes_the_living(mut self) {
        self.origin.publish(&self.from.write("a", b"version 2")).await;
        let refreshed = |event: &Event| match event {
            Event::Refreshed { name, version, .. } => Some((name.clone(), version.get())),
            _ => None,
        };
        assert_eq!(self.reader.event(refreshed).await, (name("a"), 2));
        assert_eq!(self.to.read("a"), b"version 2");
    }
}

#[testkit::test]
async fn neither_copies_of_a_dead_origin_nor_much_news_of_one_file_stop_the_refetch_of_others() {
    let dead = ["d0", "d1", "d2", "d3"];
    Stage::set(&dead, &dead.map(|text| (text, 2))).await.refreshes_the_living().await;
    Stage::set(&["d"], &[2, 3, 4, 5].map(|version| ("d", version))).await.refreshes_the_living().await;
}

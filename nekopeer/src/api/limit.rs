//! `limit`, `pause` and `resume`: how fast the peer sends and fetches, and whether it fetches.

use std::num::NonZeroU64;

use super::prelude::*;
use crate::{peer::Limits, terminal::units, util::json::large};

/// Limit how fast the running peer sends and fetches, until it ends; without a flag, say how fast
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Bytes a second that are sent at most, such as 4MB; 0: no limit
    #[arg(id = "up", long, value_name = "RATE", value_parser = units::new_rate)]
    #[schema(maximum = 9007199254740991u64)]
    #[serde(default, deserialize_with = "large")]
    limit_up_bytes_per_s: Option<u64>,
    /// Bytes a second that are fetched at most; 0: no limit
    #[arg(id = "down", long, value_name = "RATE", value_parser = units::new_rate)]
    #[schema(maximum = 9007199254740991u64)]
    #[serde(default, deserialize_with = "large")]
    limit_down_bytes_per_s: Option<u64>,
    /// Whether downloads are paused
    #[arg(skip)]
    paused: Option<bool>,
}

/// How fast the peer sends and fetches.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Throttle)]
struct ThrottleRow {
    /// Bytes a second that are sent at most; null: no limit.
    limit_up_bytes_per_s: Option<u64>,
    /// Bytes a second that are fetched at most; null: no limit.
    limit_down_bytes_per_s: Option<u64>,
    /// Whether downloads are paused.
    paused: bool,
}

impl Limit {
    pub(crate) fn pausing(paused: bool) -> Self {
        Self { paused: Some(paused), ..Self::default() }
    }
}

impl Api for Limit {
    async fn run(self, host: &Arc<Host>, _: Input, answer: &Answer) -> Result<Done, Failure> {
        let (peer, before) = (&host.peer, host.peer.limits());
        let new = |rate: Option<u64>, before| rate.map_or(before, NonZeroU64::new); // 0: no limit
        peer.set_limits(Limits {
            up: new(self.limit_up_bytes_per_s, before.up),
            down: new(self.limit_down_bytes_per_s, before.down),
        });
        match self.paused {
            Some(true) => peer.pause(),
            Some(false) => peer.resume(),
            None => {}
        }
        let [up, down] = [peer.limits().up, peer.limits().down].map(|rate| rate.map(NonZeroU64::get));
        answer
            .row(&ThrottleRow {
                limit_up_bytes_per_s: up,
                limit_down_bytes_per_s: down,
                paused: peer.is_paused(),
            })
            .await?;
        Ok(Done::all())
    }

    fn about(&self) -> About<'_> {
        About::needing(Need::Running)
    }

    fn view(&self) -> Box<dyn View> {
        Lines::of(|now: ThrottleRow, output| {
            let rate =
                |rate: Option<u64>| rate.map_or("no limit".into(), |rate| format!("{}/s", units::size(rate)));
            let paused = if now.paused { "; downloads are paused" } else { "" };
            output.text(&format!(
                "up {}, down {}{paused}",
                rate(now.limit_up_bytes_per_s),
                rate(now.limit_down_bytes_per_s)
            ))
        })
    }

    fn without_peer(&self, folder: &str) -> Result<String, Failure> {
        let start = "nekopeer serve starts one, also with --limit-up RATE or --limit-down RATE";
        Err(Failure::missing(format!("no peer runs on the data folder {folder}: {start}")))
    }
}

route! {
    /// Changes how fast the peer sends and fetches, and whether it fetches, until it ends.
    post "/api/v1/throttle" throttle(Limit) -> ThrottleRow, "What holds now"
}

//! What the tests of the indexer share.

use nekoproto::transport::Security;

pub(crate) mod http;

pub(crate) use testkit::{
    PATIENCE, TEST_LIMIT, eventually,
    fake::{self, Fake},
    network::*,
    peer::{self, Peer},
    values::*,
};

/// Runs `case` once over TLS and once in the clear.
pub(crate) async fn over_both(case: impl AsyncFn(Security)) {
    for security in [Security::Tls, Security::Insecure] {
        case(security).await;
    }
}

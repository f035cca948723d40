//! Requests over HTTP: to the REST door of a peer, and to `/status` and `/metrics` of an indexer.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, header};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

use crate::prelude::*;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A server, with connections that are kept. To be used on one runtime.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    addr: SocketAddr,
    token: Option<String>,
}

impl Http {
    pub(crate) fn new(addr: SocketAddr, token: Option<String>) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), addr, token }
    }

    pub(crate) async fn text(&self, path: &str) -> Result<String> {
        self.ask(Method::GET, path, String::new()).await
    }

    pub(crate) async fn json(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.text(path).await?)?)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        Ok(serde_json::from_str(&self.ask(Method::POST, path, body.to_string()).await?)?)
    }

    async fn ask(&self, method: Method, path: &str, body: String) -> Result<String> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.addr));
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let asking = async {
            let response = self.client.request(request.body(Full::from(body))?).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            let text = String::from_utf8(body.to_vec())?;
            ensure!(status.is_success(), "{status}: {text}");
            anyhow::Ok(text)
        };
        let answer = timeout(ANSWER_WITHIN, asking).await.context("no answer in time");
        answer.flatten().with_context(|| format!("http://{}{path}", self.addr))
    }
}

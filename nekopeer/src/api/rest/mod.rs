//! The commands of the peer as REST, and their description.

mod body;
mod carried;
pub(crate) mod described;

use std::sync::Arc;

use axum::{
    Router,
    extract::FromRequestParts,
    http::{HeaderValue, header, request::Parts},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use nekoindexer::daemon::http::Problem;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use serde_html_form::Deserializer;
use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::router::OpenApiRouter;

pub(crate) use self::{
    body::{answered, sent},
    carried::problem,
};
use self::{
    carried::HTTP_COMMANDS_MAX,
    described::{LocalName, Name},
};
use super::Host;
use nekoproto::transport::slots::{SlotLimits, Slots};

use crate::reading::SLOW_AFTER;

const DESCRIPTION: &str = "/api/v1/openapi.json";

/// What all routes share.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "nekopeer",
        description = "One running peer: what it shares and holds, what can be found, and what it does. Names \
                       travel as query parameters, since they contain slashes. Errors are problem documents whose \
                       `detail` says what to do next."
    ),
    components(schemas(LocalName, Name, Problem)),
    modifiers(&Secured)
)]
struct Description;

struct Secured;

impl Modify for Secured {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("The token in the file http.token of the data folder."))
            .build();
        let components = api.components.get_or_insert_default();
        components.security_schemes.insert("token".to_owned(), SecurityScheme::Http(scheme).into());
    }
}

#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) host: Arc<Host>,
    commands: Slots,
}

impl Inside {
    pub(crate) fn of(host: &Arc<Host>) -> Arc<Self> {
        let limits = SlotLimits { idle_after: SLOW_AFTER, ..SlotLimits::new(HTTP_COMMANDS_MAX) };
        let commands = Slots::with(limits);
        Arc::new(Self { host: Arc::clone(host), commands })
    }
}

/// The routes below `/api/v1`, and these of figures; `open` ones are described, but served elsewhere.
pub(crate) fn router(
    inside: &Arc<Inside>,
    figures: OpenApiRouter<Arc<Inside>>,
    open: OpenApiRouter<Arc<Inside>>,
) -> Router {
    let routes = OpenApiRouter::with_openapi(Description::openapi()).merge(super::routes()).merge(figures);
    let (router, mut description) = routes.split_for_parts();
    description.merge(open.into_openapi());
    let described = description.to_json().unwrap_or_default(); // plain values: serialising them cannot fail
    let described: Arc<str> = described.into();
    let describe =
        async move || ([(header::CONTENT_TYPE, "application/json")], described.to_string()).into_response();
    let router = router.route(DESCRIPTION, get(describe)).with_state(Arc::clone(inside));
    // What is true now is not true for long.
    router.layer(map_response(async |mut response: Response| {
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }))
}

/// What the parameters in the address of a request say, as `name=a&name=b&ttl=3`.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    if percent_decode_str(query).decode_utf8().is_err() {
        return Err(Problem::bad_request("the address is not valid UTF-8"));
    }
    let read = serde_path_to_error::deserialize(Deserializer::from_bytes(query.as_bytes()));
    let how = "parameters are percent-encoded, as in name=NAME";
    read.map_err(|error| Problem::bad_request(format!("{error}; {how}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Query, Word};

    #[test]
    fn parameters_are_decoded_and_checked() {
        let query: Query = read("name=a%2Fb+c&name=%C3%A9&ttl=3").unwrap();
        assert_eq!(query.names.iter().map(Word::text).collect::<Vec<_>>(), ["a/b c", "é"]);
        assert_eq!((query.ttl, read::<Query>("name=a").unwrap().ttl), (3, 3));
        for wrong in ["", "name=../a", "name=", "name=%ff", "name=%00", "name=a&ttl=99", "name=a&ttl=-1"] {
            assert_eq!(read::<Query>(wrong).unwrap_err().status, 400, "{wrong}");
        }
        let unknown = read::<Query>("name=a&froce=true").unwrap_err().detail;
        assert!(unknown.contains("froce") && unknown.contains("ttl"), "{unknown}");
    }
}

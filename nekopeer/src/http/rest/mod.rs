//! The commands of the peer as REST, and their description.

mod body;
mod events;
mod files;
mod find;
mod jobs;
mod params;
mod publish;
mod rollback;
mod throttle;
mod whole;

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderValue, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use nekoindexer::daemon::http::Problem;
use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Inside,
    described::{LocalName, Name},
};

/// Where the description is.
const DESCRIPTION: &str = "/api/v1/openapi.json";

/// What all routes share.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "nekopeer",
        description = "One running peer: what it publishes and holds, what can be found, and what it does. Names \
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

/// The routes below `/api/v1`, `/status` and `/metrics`.
pub(super) fn router(inside: &Arc<Inside>) -> Router {
    let (router, mut description) = routes().split_for_parts();
    description.merge(super::figures::health_routes().into_openapi());
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

fn routes() -> OpenApiRouter<Arc<Inside>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(find::search))
        .routes(routes!(find::ticket))
        .routes(routes!(find::query))
        .routes(routes!(find::trace))
        .routes(routes!(files::catalogue))
        .routes(routes!(files::status))
        .routes(routes!(publish::publish))
        .routes(routes!(publish::store, publish::withdraw))
        .routes(routes!(jobs::get))
        .routes(routes!(rollback::rollback))
        .routes(routes!(jobs::jobs))
        .routes(routes!(jobs::job, jobs::cancel))
        .routes(routes!(throttle::throttle))
        .routes(routes!(jobs::stop))
        .routes(routes!(events::events))
        .merge(super::figures::routes())
}

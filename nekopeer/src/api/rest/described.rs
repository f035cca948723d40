//! What the description says of many routes: the form of names, and how errors look.

use std::collections::BTreeMap;

use nekoindexer::daemon::http::Problem;
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{
        RefOr,
        content::ContentBuilder,
        response::{Response, ResponseBuilder},
    },
};

/// The name that a file is shared under: a relative path of normal components, at most 1024 bytes of UTF-8 and 255
/// in each component, without control characters and backslashes.
#[derive(ToSchema)]
#[schema(
    value_type = String,
    min_length = 1,
    max_length = 1024,
    example = "models/a.bin",
    pattern = r"^(?!\.\.?(/|$))(?!\.[nN][eE][kK][oO])[^/\\\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]{1,255}(/(?!\.\.?(/|$))(?!\.[nN][eE][kK][oO])[^/\\\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]{1,255})*$"
)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct Name(String);

/// A name, which may end with `@ID` (the first 10 to 64 digits of an origin's id), a folder (`FOLDER/`), a glob, or a ticket
/// (`neko:...`).
#[derive(ToSchema)]
#[schema(
    value_type = String,
    min_length = 1,
    max_length = 4096,
    example = "models/a.bin",
    pattern = r"^(?!\.\.?(/|$))(?!\.[nN][eE][kK][oO])[^/\\\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]+(/(?!\.\.?(/|$))(?!\.[nN][eE][kK][oO])[^/\\\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]+)*/?$"
)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct Wanted(String);

/// A path of the machine of the peer.
#[derive(ToSchema)]
#[schema(value_type = String, min_length = 1, max_length = 4096, example = "build/app.tar", pattern = r"^[^\x00]+$")]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct LocalName(String);

/// The bytes of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct Content(String);

/// Any error.
pub(crate) struct Refused;

impl IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let problem = || {
            ContentBuilder::new()
                .schema(Some(utoipa::openapi::Ref::from_schema_name(Problem::name())))
                .build()
        };
        let response = |description: &str| {
            let response = ResponseBuilder::new().description(description);
            RefOr::T(response.content("application/problem+json", problem()).build())
        };
        let refused = response("It cannot be done so; `detail` says what to do next");
        let failed = response("It cannot be done now; `detail` says what to do next");
        BTreeMap::from([("4XX".to_owned(), refused), ("5XX".to_owned(), failed)])
    }
}

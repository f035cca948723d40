//! Which requests are let in, and what stands in the head of every answer.
//!
//! A browser runs code of any page its user visits, and that code may send requests to this host. So a request
//! counts only if it names this daemon as its host (a name that its owner points here for a moment, DNS
//! rebinding, is refused), and if it comes from a page of this daemon, or from no page at all.
//!
//! A proxy in front may put its own name into `Host`, or this daemon's; the page that a browser shows is then one of a
//! name that the user gave here. What a proxy says in `X-Forwarded-*` is not needed, and so not believed: the pages
//! have only relative links.

use std::{net::Ipv6Addr, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{DefaultBodyLimit, Request},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header,
        uri::{Authority, Scheme},
    },
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
};

use percent_encoding::percent_decode_str;
use rustix::system::uname;

use super::{
    problem::{PROBLEM_JSON, Problem},
    token::{Expected, Token},
};

/// Bytes of a request's body, where a handler does not take it as a stream.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of an error's text that are kept when it is made a [`Problem`].
const ERROR_BYTES_MAX: usize = 4 * 1024;

/// What every answer says, unless it says something else: a page loads nothing from outside, is framed by nobody,
/// and is not embedded elsewhere.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
];

/// Whom a daemon lets in.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Names under which it may be called, also by a proxy in front of it, beside IP addresses, `localhost` and the name
    /// of this machine.
    pub hosts: Vec<String>,
    /// What changing routes ask for; without one they answer 403.
    pub token: Option<Arc<Token>>,
}

/// `router` behind `guard`. To be the outermost layer, once: it also answers what no route does, limits bodies,
/// makes every error a [`Problem`], and completes the head of every answer. A route that sends what others wrote
/// must set a `Content-Security-Policy` of its own (`sandbox`): the common one trusts scripts of this origin.
pub fn guarded(router: Router, guard: Guard) -> Router {
    let guard = Arc::new(guard);
    let check = move |mut request: Request, next: Next| {
        let guard = Arc::clone(&guard);
        async move {
            if let Err(problem) = guard.check(&request) {
                return complete(problem.into_response());
            }
            request.extensions_mut().insert(Expected(guard.token.clone()));
            complete(as_problem(next.run(request).await).await)
        }
    };
    router
        .fallback(async || Problem::not_found("there is nothing at this address; see /api/v1/openapi.json"))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(check))
}

impl Guard {
    fn check(&self, request: &Request) -> Result<(), Problem> {
        let query = percent_decode_str(request.uri().query().unwrap_or_default());
        if query.decode_utf8().is_err() {
            return Err(Problem::bad_request(
                "what is behind the `?` of the address must be percent-encoded UTF-8",
            ));
        }
        let host = host(request)?;
        if !self.is_ours(host.host()) {
            return Err(Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                "misdirected request",
                format!(
                    "this daemon is not called {0}; use its IP address, or localhost on its own host, or give it {0} in \
                     http_hosts of its configuration",
                    host.host()
                ),
            ));
        }
        let headers = request.headers();
        if let Some(origin) = single(headers, &header::ORIGIN)?
            && !is_same(origin, &host)
            && !self.is_of_proxy(origin)
        {
            return Err(Problem::forbidden(
                "requests from pages of other origins are refused; if a proxy in front of this daemon has the page, \
                 give it the name of the proxy in http_hosts of its configuration",
            ));
        }
        self::foreign(request.method(), headers)
    }

    /// Whether a page of `origin` is one of a proxy that was named.
    fn is_of_proxy(&self, origin: &HeaderValue) -> bool {
        let uri = Uri::try_from(origin.as_bytes()).unwrap_or_default();
        let is_web = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
        is_web && uri.host().is_some_and(|host| self.is_named(host))
    }

    fn is_named(&self, name: &str) -> bool {
        self.hosts.iter().any(|ours| name.eq_ignore_ascii_case(ours))
    }

    fn is_ours(&self, host: &str) -> bool {
        let name = host.strip_suffix('.').unwrap_or(host);
        let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        v6.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok())
            || host.parse::<std::net::Ipv4Addr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.is_named(name)
            || is_of_machine(name, &uname().nodename().to_string_lossy())
    }
}

/// Whether `name` is that of a machine which calls itself `own`, in whole, without its domain, or by multicast.
fn is_of_machine(name: &str, own: &str) -> bool {
    let short = own.split('.').next().unwrap_or_default();
    let is_short = |name: &str| !short.is_empty() && name.eq_ignore_ascii_case(short);
    name.eq_ignore_ascii_case(own)
        || is_short(name)
        || name.to_ascii_lowercase().strip_suffix(".local").is_some_and(is_short)
}

fn host(request: &Request) -> Result<Authority, Problem> {
    let told = single(request.headers(), &header::HOST)?
        .ok_or_else(|| Problem::bad_request("a request must name its host: send a `Host` header"))?;
    let host = Authority::try_from(told.as_bytes()).ok().filter(|host| !host.as_str().contains('@'));
    let host = host.ok_or_else(|| Problem::bad_request("the `Host` header must be HOST or HOST:PORT"))?;
    match request.uri().authority() {
        Some(other) if !other.as_str().eq_ignore_ascii_case(host.as_str()) => Err(Problem::bad_request(
            "the address and the `Host` header of a request must name the same host",
        )),
        _ => Ok(host),
    }
}

/// The value of a header that may come once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Problem::bad_request(format!("a request may have only one `{name}` header"))),
    }
}

/// Whether a page of `origin` is a page of `host`. A proxy may add TLS, so both schemes are right.
fn is_same(origin: &HeaderValue, host: &Authority) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let secure = origin.strip_prefix("https://").map(|page| (page, ":443"));
    let Some((page, port)) = secure.or_else(|| origin.strip_prefix("http://").map(|page| (page, ":80")))
    else {
        return false;
    };
    let plain = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    plain(page) == plain(host.as_str())
}

/// Refuses what a page of another origin sends, as far as the browser tells. Following a link from elsewhere is
/// allowed.
fn foreign(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let told = |name: &'static str| single(headers, &HeaderName::from_static(name));
    let is_ours = told("sec-fetch-site")?.is_none_or(|site| site == "same-origin" || site == "none");
    let is_visit = matches!(*method, Method::GET | Method::HEAD)
        && told("sec-fetch-mode")?.is_some_and(|mode| mode == "navigate")
        && told("sec-fetch-dest")?.is_some_and(|what| what == "document");
    if is_ours || is_visit {
        Ok(())
    } else {
        Err(Problem::forbidden("requests from pages of other origins are refused"))
    }
}

/// Makes an error that is none yet a [`Problem`]; its text says what was wrong.
async fn as_problem(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.headers().get(header::CONTENT_TYPE) == Some(&PROBLEM_JSON) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = to_bytes(body, ERROR_BYTES_MAX).await.unwrap_or_default();
    let title = status.canonical_reason().unwrap_or("error");
    let detail = match String::from_utf8_lossy(&text) {
        empty if empty.is_empty() && status == StatusCode::METHOD_NOT_ALLOWED => {
            "this address does not take this method; the `Allow` header says which it takes".to_owned()
        }
        empty if empty.is_empty() => title.to_owned(),
        text => text.into_owned(),
    };
    let problem = Problem::new(status, title, detail).into_response();
    parts.headers.remove(header::CONTENT_LENGTH);
    for (name, value) in problem.headers() {
        parts.headers.insert(name, value.clone());
    }
    Response::from_parts(parts, problem.into_body())
}

fn complete(mut response: Response<Body>) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of an answer to a request with these headers, each a line.
    fn answer(guard: &Guard, method: Method, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let checked = guard.check(&request.body(Body::empty()).unwrap());
        checked.map_or_else(|problem| problem.status.as_u16(), |()| 200)
    }

    #[test]
    fn the_machine_is_called_by_its_name_in_whole_without_its_domain_and_by_multicast() {
        let own = uname().nodename().to_string_lossy().into_owned();
        let guard = Guard { hosts: Vec::new(), token: None };
        assert_eq!(answer(&guard, Method::GET, "/", &[("host", &own)]), 200, "{own}");
        for (name, own, is_it) in [
            ("Box.lan", "box.lan", true),
            ("box", "box.lan", true),
            ("BOX.local", "box.lan", true),
            ("box.local", "box", true),
            ("box.evil.example", "box.lan", false),
            ("local", "box", false),
            (".local", "", false),
            ("xbox", "box", false),
        ] {
            assert_eq!(is_of_machine(name, own), is_it, "{name} of {own}");
        }
    }

    /// A line for each header that is looked at: another's host is never answered, nor a wrong token.
    #[test]
    fn http_heads() {
        const NAMES: [&str; 6] =
            ["host", "authorization", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "cookie"];
        testkit::fuzz("http_heads", |bytes: &[u8]| {
            let Ok(text) = str::from_utf8(bytes) else { return };
            let lines = NAMES.into_iter().cycle().zip(text.split('\n'));
            let headers: Vec<_> = lines.filter(|(_, line)| HeaderValue::from_str(line).is_ok()).collect();
            let guard = Guard { hosts: Vec::new(), token: None };
            let status = answer(&guard, Method::GET, "/", &headers);
            let hosts: Vec<_> = headers.iter().filter(|(name, _)| *name == "host").collect();
            let is_ours = |host: &str| {
                let host = host.to_ascii_lowercase();
                let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
                host.starts_with("localhost")
                    || is_of_machine(name, &uname().nodename().to_string_lossy())
                    || host.starts_with(|first: char| first == '[' || first.is_ascii_digit())
            };
            assert!(status != 200 || hosts.len() == 1 && is_ours(hosts[0].1));
        });
    }

    #[test]
    fn only_our_hosts_and_pages_are_answered_and_links_from_elsewhere_followed() {
        let guard = Guard { hosts: vec!["nas.home".to_owned()], token: None };
        let hosts = [
            (
                200,
                "127.0.0.1:8080 [::1]:8080 [2001:db8::1] 192.0.2.1 LocalHost localhost.:80 nas.home:8080 NAS.home.",
            ),
            (421, "evil.example localhost.evil.example 127.0.0.1.evil.example:8080 evilnas.home"),
            (400, "user@127.0.0.1 127.0.0.1/x"),
        ];
        for (expected, host) in
            hosts.iter().flat_map(|(status, all)| all.split(' ').map(move |one| (*status, one)))
        {
            assert_eq!(answer(&guard, Method::GET, "/", &[("host", host)]), expected, "{host}");
        }
        let origins = [
            ("http://127.0.0.1:8080", 200),
            ("https://127.0.0.1:8080", 200),
            ("http://127.0.0.1:8081", 403),
            ("http://localhost:8080", 403),
            ("http://evil.example", 403),
            ("http://127.0.0.1:8080.evil.example", 403),
            ("https://nas.home", 200),
            ("http://NAS.home:8443", 200),
            ("ftp://nas.home", 403),
            ("https://nas.home.evil.example", 403),
            ("https://evil.example@nas.home.evil.example", 403),
            ("null", 403),
            ("", 403),
        ];
        for (origin, expected) in origins {
            let headers = [("host", "127.0.0.1:8080"), ("origin", origin)];
            let answers = [Method::GET, Method::POST].map(|method| answer(&guard, method, "/", &headers));
            assert_eq!(answers, [expected; 2], "{origin}");
        }
        let sites = [
            (Method::GET, "same-origin", "cors", "document", 200),
            (Method::POST, "same-origin", "cors", "document", 200),
            (Method::GET, "none", "navigate", "document", 200),
            (Method::GET, "cross-site", "navigate", "document", 200),
            (Method::GET, "same-site", "navigate", "document", 200),
            (Method::GET, "cross-site", "navigate", "iframe", 403),
            (Method::GET, "cross-site", "no-cors", "document", 403),
            (Method::GET, "same-site", "no-cors", "document", 403),
            (Method::POST, "cross-site", "navigate", "document", 403),
            (Method::POST, "same-site", "cors", "document", 403),
            (Method::DELETE, "cross-site", "cors", "document", 403),
        ];
        for (method, site, mode, dest, expected) in sites {
            let fetch = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            let headers = [&[("host", "localhost")], &fetch[..]].concat();
            let case = format!("{method} {site} {mode} {dest}");
            assert_eq!(answer(&guard, method, "/", &headers), expected, "{case}");
        }
        let (host, origin) = (("host", "localhost"), ("origin", "http://localhost:80"));
        // The default port may be named; whoever decodes parameters that are no text would take them for others.
        type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16);
        let others: [Case<'_>; 7] = [
            ("no host", "/", &[], 400),
            ("two hosts", "/", &[host, host], 400),
            ("the default port", "/", &[host, origin], 200),
            ("two origins", "/", &[host, origin, origin], 400),
            ("a letter", "/?name=%C3%A4", &[host], 200),
            ("no text as a value", "/?name=%ff", &[host], 400),
            ("no text as a name", "/?a=b&%C3=a", &[host], 400),
        ];
        for (case, uri, headers, expected) in others {
            assert_eq!(answer(&guard, Method::POST, uri, headers), expected, "{case}");
        }
    }
}

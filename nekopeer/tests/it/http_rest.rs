//! The commands of a running peer over HTTP.

use std::iter;

use crate::{common::http::Client, program::*};

fn ended(http: &Http, serving: &mut Running, id: &Value) -> Value {
    let mut job = Value::Null;
    until(serving, "the job ends", || {
        job = http.get(&format!("/api/v1/jobs/{id}")).done(200);
        job["state"] != "running"
    });
    job
}

#[test]
fn rows_are_those_of_the_command_line() {
    let (_indexers, origin, reader) = two_homes();
    origin.write_each(&["a.txt", "b b.txt", "c.txt"]);
    let mut sharing = origin.start(&["share", "a.txt", "b b.txt", "c.txt", "--http", "127.0.0.1:0"]);
    sharing.err_line("serving on ");
    let http = Http::of(&origin, &mut sharing);
    let listed = origin.done(&["ls", "--json"]).json();
    let catalogue = http.get("/api/v1/catalogue").done(200);
    assert_eq!((&catalogue["files"], &catalogue["next"]), (&listed["files"], &Value::Null));
    let keys = ["name", "path", "origin", "own", "version", "size", "content", "mode", "freshness", "newest"];
    assert!(has_keys(&catalogue["files"][0], &keys), "{catalogue}");
    // Page by page it is the same.
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let page = http.get(&format!("/api/v1/catalogue?limit=2{after}")).done(200);
        pages.extend(page["files"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={}", next.replace(' ', "%20"));
    }
    assert_eq!(Value::from(pages), listed["files"]);
    // Selected and sorted by the peer.
    let sorted = http.get("/api/v1/catalogue?q=.TXT%20b&sort=-size&limit=1").done(200);
    assert_eq!((&sorted["files"][0], &sorted["next"]), (&listed["files"][1], &Value::Null));
    assert_eq!(sorted["selected"], json!({ "files": 1, "bytes": 7, "stale": 0 }));
    http.get("/api/v1/catalogue?sort=newest").refused(400, "name, size, shared or freshness");
    let (_reading, http) = Http::serving(&reader, &[]);
    let answers = http.get("/api/v1/query?name=b%20b.txt&name=nothing&ttl=0").done(200);
    let queried = reader.run(&["query", "b b.txt", "nothing", "--ttl", "0", "--json"]).json();
    assert_eq!(answers, queried);
    reader.done(&["get", "b b.txt"]);
    let status = http.get("/api/v1/status?name=b+b.txt").done(200);
    assert_eq!((&status["files"][0]["freshness"], status["files"][1].is_null()), (&"fresh".into(), true));
    assert!(status["files"][0]["fresh_until_ms"].as_u64() > status["files"][0]["confirmed_ms"].as_u64());
    let found = http.get("/api/v1/search?q=*.txt&limit=2").done(200);
    let next = found["next"].as_str().unwrap().replace('%', "%25").replace(' ', "%20");
    let further = http.get(&format!("/api/v1/search?q=*.txt&after={next}")).done(200);
    let names = |found: &Value| {
        let matches = found["hits"].as_array().unwrap().iter();
        matches.map(|found| found["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!([names(&found), names(&further)].concat(), ["a.txt", "b b.txt", "c.txt"]);
    let ticket = http.get("/api/v1/ticket?name=b%20b.txt").done(200);
    let ticket = ticket["tickets"][0]["ticket"].as_str().unwrap();
    assert!(ticket.starts_with("neko:"), "{ticket}");
    let code = http.get(&format!("/qr.svg?ticket={ticket}"));
    assert_eq!((code.status, code.header("content-type")), (200, "image/svg+xml"));
    assert!(code.text().contains("<svg"), "{code:?}");
    for text in ["ticket=https://example.com", "ticket=", "name=b"] {
        http.get(&format!("/qr.svg?{text}")).refused(400, "ticket");
    }
    let traced = http.get("/api/v1/trace?name=a.txt").done(200);
    assert!(traced["found"] == true && traced["complete"] == true, "{traced}");
}

#[test]
fn errors_say_what_to_do_and_methods_that_are_not_taken_are_named() {
    let (_indexers, home) = one_home();
    let (_serving, http) = Http::serving(&home, &[]);
    for (target, status, detail) in [
        ("search", 422, "what to look for"),
        ("query", 400, "name=NAME"),
        ("query?name=../a", 400, "'..'"),
        ("query?name=a&ttl=99", 400, "0 to 16"),
        ("query?nme=a", 400, "`name` or `ttl`"),
        ("jobs/7", 404, "/api/v1/jobs"),
        ("jobs/x", 400, ""),
        ("nothing", 404, "openapi.json"),
    ] {
        http.get(&format!("/api/v1/{target}")).refused(status, detail);
    }
    for (target, body, status, detail) in [
        ("get", r#"{"names":[]}"#, 400, "at least one"),
        ("get", r#"{"names":["a","b"],"version":1}"#, 409, "single"),
        ("get", r#"{"names":["a"],"version":0}"#, 422, ""),
        ("get", r#"{"names":["/a"]}"#, 422, "relative"),
        ("get", r#"{"names":["neko:abc"]}"#, 422, "ticket"),
        ("get", r#"{"names":["a"],"bound_secs":0}"#, 400, "bound_secs"),
        ("get", r#"{"names":["a"],"on_stale":"burn"}"#, 422, "refetch"),
        ("get", r#"{"nam":[]}"#, 422, "nam"),
        ("get", "{", 400, ""),
        ("publish", r#"{"paths":["missing"]}"#, 404, "missing"),
        ("publish", r#"{"paths":["a"],"policy":[]}"#, 422, "map"),
        ("publish", r#"{"paths":["a","b"],"set":true}"#, 409, "one by one"),
        ("rollback", r#"{"name":"a","version":0}"#, 422, ""),
        ("rollback", r#"{"name":"a","version":1.0}"#, 404, "a"),
        ("throttle", r#"{"limit_up_bytes_per_s":9007199254740992}"#, 422, "9007199254740991"),
    ] {
        http.change("POST", &format!("/api/v1/{target}"), body).refused(status, detail);
    }
    http.change("PUT", "/api/v1/files?name=a%5Cb", "x").refused(400, "backslash");
    http.change("DELETE", "/api/v1/files?name=missing", "").refused(404, "not shared here");
    let taken = http.ask("PATCH", "/api/v1/jobs", &[], b"");
    taken.refused(405, "Allow");
    assert_eq!(taken.header("allow"), "GET,HEAD");
    assert!(http.ask("HEAD", "/api/v1/catalogue", &[], b"").body.is_empty());

    // Changing needs the token and a page of our own.
    let right = http.authorization();
    for (method, target) in [
        ("POST", "/api/v1/publish"),
        ("POST", "/api/v1/get"),
        ("POST", "/api/v1/stop"),
        ("PUT", "/api/v1/files?name=b"),
        ("DELETE", "/api/v1/files?name=a.txt"),
        ("DELETE", "/api/v1/jobs/1"),
    ] {
        http.ask(method, target, &[], b"").refused(401, "http.token");
        http.ask(method, target, &["authorization: Bearer 0"], b"").refused(403, "http.token");
        http.ask(method, target, &[&right, "origin: http://evil.example"], b"").refused(403, "origins");
        http.ask(method, target, &[&right, "host: evil.example"], b"").refused(421, "evil.example");
    }
    http.ask("GET", "/api/v1/catalogue", &["host: evil.example"], b"").refused(421, "evil.example");
    let mode = fs::metadata(home.path(".neko/http.token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn link_with_the_token_is_printed_on_a_terminal_only() {
    let (_indexers, home) = one_home();
    let (running, http) = Http::serving(&home, &[]);
    let said = running.interrupt();
    assert!(!said.out.iter().chain(&said.err).any(|line| line.contains(&http.token)), "{said:?}");
    let mut terminal = at_terminal(home.command(["serve", "--http", "0.0.0.0:0"]), true);
    terminal.exp_string("http on http://0.0.0.0:").unwrap();
    terminal.exp_regex(&format!("http://127.0.0.1:[0-9]+/#token={}", http.token)).unwrap();
}

#[test]
fn file_is_published_fetched_and_withdrawn() {
    let (_indexers, origin, reader) = two_homes();
    let (_origin, theirs) = Http::serving(&origin, &[]);
    let (mut reading, ours) = Http::serving(&reader, &[]);
    let content = bytes(1, 3 * MIB);
    let stored = theirs.change("PUT", "/api/v1/files?name=x/y.bin", &content).done(200);
    assert_eq!((&stored["files"][0]["name"], &stored["confirmed"]), (&"x/y.bin".into(), &true.into()));
    assert_eq!(origin.read("x/y.bin"), content);
    let job = &theirs.get("/api/v1/jobs").done(200)["jobs"][0];
    let size = json!(content.len());
    assert_eq!((&job["kind"], &job["done_bytes"], &job["total_bytes"]), (&"store".into(), &size, &size));
    // Its origin says that this is the newest, and notes no reader, as nothing is held there.
    assert_eq!(ours.get("/f/x/y.bin").header("x-neko-freshness"), "fresh");
    assert_eq!(theirs.get("/api/v1/status?name=x/y.bin").done(200)["files"][0]["readers"], json!([]));
    let begun = ours.change("POST", "/api/v1/get", r#"{"names":["x/y.bin"]}"#);
    let job = begun.done(202);
    assert_eq!(begun.header("location"), format!("jobs/{}", job["id"]));
    assert_eq!(ended(&ours, &mut reading, &job["id"])["state"], "done");
    assert_eq!(reader.read("x/y.bin"), content);
    let read_at =
        |http: &Http| http.get("/api/v1/status?name=x/y.bin").done(200)["files"][0]["read_at_ms"].as_u64();
    assert!(read_at(&theirs) >= job["started_ms"].as_u64(), "it was served");
    assert_eq!(read_at(&ours), None, "the copy was not read yet");
    let sent = ours.get("/f/x/y.bin");
    assert!(sent.body == content, "{}", sent.status);
    // What the door says about its own pages does not hide that a file may do nothing.
    let policy = sent.header("content-security-policy");
    assert!(policy.contains("sandbox; default-src 'none'"), "{policy}");
    assert!(read_at(&ours) >= read_at(&theirs));
    origin.write("z.txt", "z");
    let published = theirs.change("POST", "/api/v1/publish", r#"{"paths":["z.txt","x"]}"#).done(200);
    let names = [&published["files"][0]["name"], &published["files"][1]["name"]];
    assert_eq!(names, ["z.txt", "x/y.bin"]);
    let policy = r#"{"paths":["z.txt"],"policy":{"mode":"push","lease_secs":5}}"#;
    theirs.change("POST", "/api/v1/publish", policy).done(200);
    let listed = theirs.get("/api/v1/catalogue?after=x/y.bin").done(200);
    assert_eq!((&listed["files"][0]["mode"], &listed["files"][0]["own"]), (&"push".into(), &true.into()));
    let withdrawn = theirs.change("DELETE", "/api/v1/files?name=z.txt&name=other", "").done(200);
    assert_eq!(withdrawn["unshared"], json!(["z.txt"]));
    let why = "other is not shared here: ls lists what is";
    let failed = json!([{ "name": "other", "error": why, "kind": "not-found", "remedy": null }]);
    assert_eq!(withdrawn["failed"], failed);
    // What stands in the way is not replaced.
    origin.write("mine.txt", "mine");
    let why = "mine.txt exists and is not what was shared: share it; or replace it with force=true";
    theirs.change("PUT", "/api/v1/files?name=mine.txt", b"other").refused(409, why);
    theirs.change("PUT", "/api/v1/files?name=mine.txt/b", b"other").refused(409, "mine.txt");
    theirs.change("PUT", "/api/v1/files?name=mine.txt&force=true", b"other").done(200);
    assert_eq!(origin.read("mine.txt"), b"other");
}

#[test]
fn part_of_a_file_is_not_stored_as_the_whole() {
    let (_indexers, home) = one_home();
    let (mut running, http) = Http::serving(&home, &[]);
    let authorization = http.authorization();
    let headers = [authorization.as_str(), "content-length: 1000000"];
    let mut client = http.begin("PUT", "/api/v1/files?name=half.bin", &headers);
    client.send(&[7; 500_000]);
    let state = || http.get("/api/v1/jobs").done(200)["jobs"][0]["state"].clone();
    until(&mut running, "it is a job", || state() == "running");
    drop(client);
    until(&mut running, "the job ends", || state() != "running");
    assert!(!home.path("half.bin").exists());
    assert_eq!(http.get("/api/v1/catalogue").done(200)["files"], json!([]));

    let target = "/api/v1/files?name=a.txt";
    http.change("PUT", target, "0123456789").done(200);
    for header in ["content-range: bytes 5-9/10", "if-none-match: *", "if-match: \"v7\""] {
        let name = header.split(':').next().unwrap();
        http.ask("PUT", target, &[&authorization, header], b"56789").refused(400, name);
    }
    let packed = [authorization.as_str(), "content-encoding: gzip"];
    http.ask("PUT", target, &packed, b"56789").refused(415, "Content-Encoding");
    // A body that breaks the rules is the fault of who sends it.
    let headers = [authorization.as_str(), "transfer-encoding: chunked"];
    let mut broken = http.begin("PUT", "/api/v1/files?name=b.txt", &headers);
    broken.send(b"5\r\nhello\r\nzz\r\n");
    broken.answer().refused(422, "cut off");
    assert_eq!((home.read("a.txt").as_slice(), home.path("b.txt").exists()), (&b"0123456789"[..], false));
    // Nobody waits for a pipe in the place of a file.
    testkit::pipe(home.path("p"));
    for target in ["/api/v1/files?name=p", "/api/v1/files?name=p&force=true"] {
        http.change("PUT", target, "a").refused(409, "named pipe");
    }
    assert_eq!(running.interrupt().code, Some(0));
}

#[test]
fn ticket_and_name_with_its_origin_are_fetched() {
    let (_indexers, origin, reader) = two_homes();
    let (_origin, theirs) = Http::serving(&origin, &[]);
    let (mut reading, ours) = Http::serving(&reader, &[]);
    let stored = theirs.change("PUT", "/api/v1/files?name=a.txt", b"of a ticket").done(200);
    let published = &stored["files"][0];
    let ticket = published["ticket"].as_str().unwrap();
    let again = theirs.change("POST", "/api/v1/publish", r#"{"paths":["a.txt"]}"#).done(200);
    assert_eq!(again["files"][0]["ticket"], *ticket);
    assert_eq!(origin.done(&["share", "a.txt", "--json"]).json()["files"][0]["ticket"], *ticket);
    theirs.change("PUT", "/api/v1/files?name=b.txt", b"of an origin").done(200);
    let named = format!("b.txt@{}", &published["origin"].as_str().unwrap()[..10]);
    let wanted = json!({ "names": [ticket, named], "bound_secs": 7.0, "on_stale": "drop" }).to_string();
    let job = ours.change("POST", "/api/v1/get", wanted).done(202);
    let job = ended(&ours, &mut reading, &job["id"]);
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(reader.read("a.txt"), b"of a ticket");
    assert_eq!(reader.read("b.txt"), b"of an origin");
    let status = ours.get("/api/v1/status?name=a.txt&name=b.txt").done(200);
    for file in [&status["files"][0], &status["files"][1]] {
        assert_eq!((&file["bound_secs"], &file["on_stale"]), (&7.into(), &"drop".into()), "{status}");
    }
    let wanted = json!({ "names": ["b.txt"], "anew": true, "on_stale": "keep" }).to_string();
    let job = ours.change("POST", "/api/v1/get", wanted).done(202);
    ended(&ours, &mut reading, &job["id"]);
    let status = ours.get("/api/v1/status?name=b.txt").done(200);
    let file = &status["files"][0];
    assert_eq!((file.get("bound_secs"), &file["on_stale"]), (None, &"keep".into()), "{status}");
    // With `origin` the whole is the name.
    let whole = json!({ "names": [named], "origin": published["origin"] }).to_string();
    let job = ours.change("POST", "/api/v1/get", whole).done(202);
    assert_eq!(ended(&ours, &mut reading, &job["id"])["state"], "failed");
}

#[test]
fn job_of_a_shell_is_cancelled_over_http_and_that_of_http_by_a_shell() {
    let (_indexers, _origin, reader, _sharing) = sharing("big.bin", bytes(1, 16 * MIB));
    let (mut running, http) = Http::serving(&reader, &["--limit-down", "1MB"]);
    let getting = reader.start(&["get", "big.bin"]);
    let jobs = || http.get("/api/v1/jobs").done(200)["jobs"].clone();
    until(&mut running, "it runs", || jobs()[0]["done_bytes"].as_u64() > Some(0));
    let target = format!("/api/v1/jobs/{}", jobs()[0]["id"]);
    assert_eq!(http.change("DELETE", &target, "").done(200)["state"], "cancelled");
    getting.wait().failed_with(3, &["cancelled by another command"]);
    http.change("DELETE", &target, "").refused(409, "has ended");
    let job = http.change("POST", "/api/v1/get", r#"{"names":["big.bin"]}"#).done(202);
    reader.done(&["cancel", &job["id"].to_string()]);
    assert_eq!(ended(&http, &mut running, &job["id"])["state"], "cancelled");
}

#[test]
fn events_tell_of_jobs_and_of_what_happens() {
    let (_indexers, origin, reader, mut sharing) = sharing("a.bin", bytes(1, MIB));
    let (_running, http) = Http::serving(&reader, &[]);
    let mut events = http.begin("GET", "/api/v1/events", &[]);
    let _ = events.head(); // from now on events come
    let mut event = |kind: &str, text: &str| {
        iter::repeat_with(|| events.event(kind)).find(|data| data.to_string().contains(text)).unwrap()
    };
    http.change("POST", "/api/v1/get", r#"{"names":["a.bin"]}"#).done(202);
    assert_eq!(event("job", "\"running\"")["name"], "a.bin");
    assert_eq!(event("job", "\"done\"")["id"], 1);
    assert_eq!(event("job-ended", "")["text"], "job 1 done: get a.bin");
    origin.share_anew("a.bin", bytes(2, MIB));
    let invalidated = event("invalidated", "");
    assert_eq!((&invalidated["version"], &invalidated["newest"]), (&1.into(), &2.into()));
    assert!(sharing.is_running());
}

#[test]
fn requests_are_bounded_and_leave_room_for_the_commands_of_this_host() {
    let (_indexers, home) = one_home();
    let (mut running, http) = Http::serving(&home, &[]);
    // Each body that does not come keeps its command.
    let authorization = http.authorization();
    let headers = [authorization.as_str(), "content-length: 10"];
    let begin = |n| http.begin("PUT", &format!("/api/v1/files?name=f{n}"), &headers);
    let mut streams: Vec<Client> = vec![begin(0)];
    until(&mut running, "the first is begun", || {
        http.get("/api/v1/jobs").done(200)["jobs"][0]["name"] == "f0"
    });
    // Asking takes a place for a moment, too, which it may still have when the next one asks.
    let mut refused = 0;
    until(&mut running, "no place is left", || {
        if http.get("/api/v1/catalogue").status == 503 {
            refused += 1;
        } else {
            streams.push(begin(streams.len()));
            refused = 0;
        }
        refused == 5
    });
    http.get("/api/v1/catalogue").refused(503, "48 requests");
    home.done(&["ls"]);
    // Each command ends with its request.
    streams.truncate(1);
    until(&mut running, "they end", || http.get("/api/v1/catalogue").status == 200);
    let mut last = streams.remove(0);
    last.send(b"0123456789");
    assert_eq!(last.answer().done(200)["files"][0]["name"], "f0");
    assert_eq!(http.change("POST", "/api/v1/stop", "").status, 202);
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn peer_that_has_another_door_says_so_and_an_address_in_use_is_an_error() {
    let (_indexers, home, other) = two_homes();
    home.write("a.txt", "a");
    let (_running, http) = Http::serving(&home, &[]);
    let told = home.done(&["share", "a.txt", "--http", "127.0.0.1:1"]);
    assert!(told.err.iter().any(|line| line.contains("keeps its own --http")), "{told:?}");
    let addr = http.addr.to_string();
    let told = home.done(&["share", "a.txt", "--http", &addr]);
    assert!(!told.err.iter().any(|line| line.contains("--http")), "{told:?}");
    other.run(&["serve", "--http", &addr]).ended_with(3, "another address with --http");
    assert_eq!(http.get("/api/v1/catalogue").status, 200);
}

#[test]
fn sets_followers_readers_and_kept_versions_are_told_and_a_rollback_is_done() {
    let (_indexers, origin, reader) = two_homes();
    origin.write("build/a", "1");
    let (_sharing, theirs) = Http::serving(&origin, &[]);
    let publish = || {
        theirs.change("POST", "/api/v1/publish", r#"{"paths":["build"],"name":"app","set":true}"#).done(200)
    };
    assert_eq!(publish()["files"][0]["set"], true);
    let (_serving, ours) = Http::serving(&reader, &[]);
    let mut following = reader.start_out(&["follow", "app", "--keep", "1"], "app is at version 1");
    let jobs = ours.get("/api/v1/jobs").done(200);
    assert_eq!(fields(&jobs["jobs"][0], &["kind", "name"]), json!(["follow", "app"]), "{jobs}");
    origin.write("build/a", "2");
    publish();
    following.out_line("app is at version 2");
    let told = ours.get("/api/v1/status?name=app").done(200);
    let told = &told["files"][0];
    assert_eq!(fields(told, &["set", "kept", "lease_secs"]), json!([true, [1], 60]), "{told}");
    let readers = theirs.get("/api/v1/status?name=app").done(200)["files"][0]["readers"].clone();
    assert_eq!(readers.as_array().map(Vec::len), Some(1), "{readers}");

    ours.change("POST", "/api/v1/rollback", r#"{"name":"app","version":7}"#)
        .refused(404, "version 7 of app is not kept");
    let back = ours.change("POST", "/api/v1/rollback", r#"{"name":"app"}"#).done(200);
    assert_eq!((&back["version"], reader.read("app/a")), (&1.into(), b"1".to_vec()));
    let figures = ours.get("/metrics").text().to_owned();
    for line in
        ["nekop2p_peer_rollbacks_total 1", "nekop2p_peer_refused_versions_total 0", "nekop2p_peer_sets 1"]
    {
        assert!(figures.contains(line), "{line}: {figures}");
    }
    let figures = theirs.get("/metrics").text().to_owned();
    assert!(figures.contains("nekop2p_peer_readers{which=\"all\"} 1"), "{figures}");
    assert!(!figures.contains("nekop2p_peer_leases_total 0"), "{figures}");
    assert_eq!(theirs.get("/status").done(200)["files"]["sets"], 1);
    theirs.get("/f/app").refused(409, "app is a set");
}

#[test]
fn description_has_every_route_and_says_who_needs_the_token() {
    let (_indexers, home) = one_home();
    let (_running, http) = Http::serving(&home, &[]);
    let api = http.get("/api/v1/openapi.json").done(200);
    assert_eq!(api["openapi"].as_str().unwrap().split_at(3).0, "3.1");
    let text = api.to_string();
    for name in text.split("#/components/schemas/").skip(1).filter_map(|text| text.split('"').next()) {
        assert!(!api["components"]["schemas"][name].is_null(), "{name} is not described");
    }
    let mut secured = 0;
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_secured = !operation["security"].is_null();
            assert_eq!(is_secured, method != "get", "{method} {path}");
            secured += usize::from(is_secured);
            assert!(has_keys(&operation["responses"], &["4XX", "5XX"]), "{method} {path}");
        }
    }
    assert!(secured >= 6, "{secured}");
}

/// Method: the headers of nginx as it comes, which puts the address of the daemon in place of the host, and of Caddy, which
/// keeps it, are sent as they would be for a browser's page.
#[test]
fn page_of_a_proxy_may_change_what_it_shows_and_no_other_page() {
    let (_indexers, home) = one_home();
    home.write("x", "hi");
    let (_serving, http) = Http::serving(&home, &["--http-hosts", "files.example,NAS"]);
    let (authorization, body) = (http.authorization(), json!({ "paths": [home.text("x")] }).to_string());
    let publish = |headers: &[&str]| {
        let always = [&authorization, "content-type: application/json", "sec-fetch-site: same-origin"];
        http.ask("POST", "/api/v1/publish", &[headers, &always].concat(), body.as_bytes())
    };
    let page = "origin: https://files.example";
    let by_caddy =
        ["host: files.example", page, "x-forwarded-host: files.example", "x-forwarded-proto: https"];
    for headers in [&[page][..], &by_caddy, &["host: files.example", "origin: https://files.example:8443"]] {
        publish(headers).done(200);
    }
    assert_eq!(http.ask("GET", "/f/x", &["host: nas:8080"], b"").text(), "hi");
    publish(&["origin: https://evil.example"]).refused(403, "http_hosts");
    publish(&["origin: https://evil.example", "x-forwarded-host: evil.example"]).refused(403, "http_hosts");
    publish(&["host: evil.example", "x-forwarded-host: files.example"])
        .refused(421, "evil.example in http_hosts");
    for address in ["/", "/assets/app.js", "/assets/common.js", "/assets/files.js", "/assets/media.js"] {
        let text = http.get(address).text().to_owned();
        for absolute in ["=\"/", "\"/api", "`/f/", "\"/assets"] {
            assert!(!text.contains(absolute), "{absolute} in {address}: a proxy's path is left out");
        }
    }
    home.run(&["ls", "--http-hosts", "https://files.example"]).ended_with(2, "without scheme and port");
}

//! A headless Chromium, driven through its driver: what is on the page, what is in its console, what it asked for.
#![allow(clippy::expect_used, reason = "a helper of tests fails by panicking")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, to_bytes},
    http::{Method, Request, Uri},
};
use data_encoding::BASE64;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::machine::{self, BROWSER};

/// Time limit of what a page is waited for.
const LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks at a page.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Keys as WebDriver writes them (https://www.w3.org/TR/webdriver2/#keyboard-actions).
pub(crate) const TAB: char = '\u{E004}';
pub(crate) const ENTER: char = '\u{E007}';
pub(crate) const ESCAPE: char = '\u{E00C}';

/// A browser with one window; dropping it ends it, whatever it is doing.
pub(crate) struct Browser {
    session: Session,
    _driver: Driver,
}

/// A WebDriver session: JSON over HTTP (https://www.w3.org/TR/webdriver2/#endpoints).
struct Session {
    client: Client<HttpConnector, Body>,
    at: String,
}

impl Session {
    /// Has the driver at `at` start a browser.
    async fn start(at: String, capabilities: &Value) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut session = Self { client, at: format!("{at}/session") };
        let asked = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let begun = session.command(Method::POST, "", &asked).await.unwrap();
        session.at = format!("{}/{}", session.at, begun["sessionId"].as_str().unwrap());
        session
    }

    /// The value that a command returns, or what the driver says of its failure.
    async fn command(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        let has_body = method == Method::POST;
        let request = Request::builder().method(method).uri(format!("{}{path}", self.at));
        let body = if has_body { Body::from(body.to_string()) } else { Body::empty() };
        let reply =
            self.client.request(request.body(body).unwrap()).await.map_err(|error| error.to_string())?;
        let is_done = reply.status().is_success();
        let text =
            to_bytes(Body::new(reply.into_body()), usize::MAX).await.map_err(|error| error.to_string())?;
        let value = serde_json::from_slice::<Value>(&text).unwrap()["value"].take();
        if is_done { Ok(value) } else { Err(value["message"].to_string()) }
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.command(Method::POST, path, &body).await.unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    async fn get(&self, path: &str) -> Value {
        self.command(Method::GET, path, &Value::Null).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

/// The driver's process, and the folder that names its browser's processes.
struct Driver {
    child: Child,
    profile: TempDir,
}

impl Driver {
    /// Starts the driver; gives its address.
    fn start(program: &Path) -> (Self, String) {
        let mut command = Command::new(program);
        command.args(["--port=0", "--log-level=SEVERE"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let driver = Self { child, profile: TempDir::new().unwrap() };
        let mut lines = lines.map_while(Result::ok);
        let line = lines.find(|line| line.contains("started successfully on port ")).expect("a port");
        let port = line.rsplit(' ').next().unwrap().trim_end_matches('.');
        (driver, format!("http://127.0.0.1:{port}"))
    }

    /// Ends the processes of the browser, which outlive a driver that is killed. Gives whether there were any.
    fn end_browser(&self) -> bool {
        let profile = self.profile.path().as_os_str().as_encoded_bytes().to_vec();
        let mut were_any = false;
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let id = process.file_name().to_str().and_then(|id| id.parse().ok());
            let is_ours = line.windows(profile.len()).any(|part| part == profile);
            if let Some(id) = id.filter(|_| is_ours).and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL); // it may have ended
                were_any = true;
            }
        }
        were_any
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
        // Until they are gone they write to the folder that is removed next.
        let until = Instant::now() + LIMIT;
        while self.end_browser() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Browser {
    /// A browser, or `None` where none is installed and `NEKO_BROWSER` does not require one.
    pub(crate) async fn start() -> Option<Self> {
        let (driver, browser) = BROWSER.or_left_out(machine::browser())?;
        let (driver, at) = Driver::start(&driver);
        let profile = format!("--user-data-dir={}", driver.profile.path().display());
        let capabilities = json!({
            "goog:chromeOptions": { "binary": browser, "args": [
                "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                "--no-first-run", "--disable-background-networking", "--lang=en", profile,
            ] },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        Some(Self { session: Session::start(at, &capabilities).await, _driver: driver })
    }

    pub(crate) async fn open(&self, url: &str) {
        self.session.post("/url", json!({ "url": url })).await;
    }

    /// Follows a link to `url`, which may be a download and no page.
    pub(crate) async fn visit(&self, url: &str) {
        drop(self.session.command(Method::POST, "/url", &json!({ "url": url })).await);
    }

    pub(crate) async fn address(&self) -> String {
        self.session.get("/url").await.as_str().unwrap().to_owned()
    }

    /// What `script`, the body of a function, returns.
    pub(crate) async fn value(&self, script: &str) -> Value {
        self.session.post("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Waits until `condition`, an expression, is true.
    pub(crate) async fn until(&self, condition: &str) {
        let began = Instant::now();
        while self.value(&format!("return Boolean({condition})")).await != true {
            if began.elapsed() > LIMIT {
                let shown = self.value("return document.body.innerText").await;
                panic!("not so: {condition}\nthe page shows: {}", shown.as_str().unwrap_or_default());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Does `action` to the element that `selector` finds, once there is one.
    async fn act(&self, selector: &str, action: &str, body: Value) {
        self.until(&format!("document.querySelector({})", json!(selector))).await;
        let found =
            self.session.post("/element", json!({ "using": "css selector", "value": selector })).await;
        let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap();
        self.session.post(&format!("/element/{id}/{action}"), body).await;
    }

    pub(crate) async fn click(&self, selector: &str) {
        self.act(selector, "click", json!({})).await;
    }

    /// Clicks, and waits until `condition` is true.
    pub(crate) async fn click_until(&self, selector: &str, condition: &str) {
        self.click(selector).await;
        self.until(condition).await;
    }

    pub(crate) async fn clear(&self, selector: &str) {
        self.act(selector, "clear", json!({})).await;
    }

    /// Types into the element, as on a keyboard.
    pub(crate) async fn type_into(&self, selector: &str, text: &str) {
        self.act(selector, "value", json!({ "text": text })).await;
    }

    /// Presses a key where the focus is.
    pub(crate) async fn press(&self, key: char) {
        let stroke = |kind| json!({ "type": kind, "value": key.to_string() });
        let keys =
            json!({ "type": "key", "id": "keyboard", "actions": [stroke("keyDown"), stroke("keyUp")] });
        self.session.post("/actions", json!({ "actions": [keys] })).await;
    }

    /// Runs a command of the developer tools.
    pub(crate) async fn tool(&self, command: &str, params: Value) -> Value {
        self.session.post("/goog/cdp/execute", json!({ "cmd": command, "params": params })).await
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        self.session.post("/se/log", json!({ "type": kind })).await.as_array().unwrap().clone()
    }

    /// What is in the console, errors and violations of the content security policy among it, and which hosts pages asked
    /// for something, both since this was asked last.
    pub(crate) async fn console_and_hosts(&self) -> (Vec<String>, Vec<String>) {
        let console = self.log("browser").await;
        let console =
            console.iter().map(|entry| format!("{} {}", entry["level"], entry["message"])).collect();
        let mut hosts = Vec::new();
        for entry in self.log("performance").await {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let url = event["message"]["params"]["request"]["url"].as_str();
            let is_request = event["message"]["method"] == "Network.requestWillBeSent";
            let url = url.filter(|_| is_request).and_then(|url| url.parse::<Uri>().ok());
            if let Some(url) =
                url.filter(|url| matches!(url.scheme_str(), Some("http" | "https" | "ws" | "wss")))
            {
                hosts.push(format!("{}:{}", url.host().unwrap(), url.port_u16().unwrap_or_default()));
            }
        }
        hosts.sort();
        hosts.dedup();
        (console, hosts)
    }

    /// Sets the width of the page in pixels and the system's choice of colours, `dark` or `light`.
    pub(crate) async fn appear(&self, width: u32, theme: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": theme },
            { "name": "prefers-reduced-motion", "value": "reduce" }, // nothing is between two colours
        ]);
        self.tool("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.tool("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// A picture of the whole page, as PNG.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        let size =
            self.value("const e = document.documentElement; return [e.clientWidth, e.scrollHeight]").await;
        let metrics = json!({ "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": false });
        self.tool("Emulation.setDeviceMetricsOverride", metrics).await;
        BASE64.decode(self.session.get("/screenshot").await.as_str().unwrap().as_bytes()).unwrap()
    }

    /// Ends it; an error of the driver is a failure here.
    pub(crate) async fn close(self) {
        self.session.command(Method::DELETE, "", &Value::Null).await.unwrap();
    }
}

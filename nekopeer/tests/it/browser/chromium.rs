//! A headless Chromium, driven through its driver: what is on the page, what is in its console, what it asked for.

use axum::http::Uri;
use data_encoding::BASE64;
use testkit::{
    http::ask,
    machine::{self, BROWSER},
};

use crate::program::*;

const LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Keys as WebDriver writes them (https://www.w3.org/TR/webdriver2/#keyboard-actions).
pub(crate) const TAB: char = '\u{E004}';
pub(crate) const ENTER: char = '\u{E007}';
pub(crate) const ESCAPE: char = '\u{E00C}';

/// A browser with one window; dropping it ends it, whatever it is doing. A WebDriver session is JSON over HTTP
/// (https://www.w3.org/TR/webdriver2/#endpoints).
pub(crate) struct Browser {
    addr: SocketAddr,
    path: String,
    _driver: Driver,
}

/// The driver's process, and the folder that names its browser's processes.
struct Driver {
    running: Option<Running>,
    profile: TempDir,
}

impl Driver {
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
        self.running = None; // dropping it kills it
        // Until they are gone they write to the folder that is removed next.
        let until = Instant::now() + LIMIT;
        while self.end_browser() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Browser {
    /// A browser, or `None` where none is installed and `NEKO_BROWSER` does not require one.
    pub(crate) fn start() -> Option<Self> {
        let (driver, browser) = BROWSER.or_left_out(machine::browser())?;
        // The driver takes a port that is free for IPv6, and ends where another program has the same of IPv4.
        let (running, line) = loop {
            let mut command = Command::new(&driver);
            command.args(["--port=0", "--log-level=SEVERE"]);
            let mut running = Running::start(command);
            match running.out_line_if_any("started successfully on port ") {
                Some(line) => break (running, line),
                None => drop(running.err_line("Address already in use")),
            }
        };
        let port: u16 = line.rsplit(' ').next().unwrap().trim_end_matches('.').parse().unwrap();
        let driver = Driver { running: Some(running), profile: TempDir::new().unwrap() };
        let profile = format!("--user-data-dir={}", driver.profile.path().display());
        let capabilities = json!({
            "goog:chromeOptions": { "binary": browser, "args": [
                "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                "--no-first-run", "--disable-background-networking", "--lang=en", profile,
            ] },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let (addr, path) = (([127, 0, 0, 1], port).into(), "/session".to_owned());
        let mut browser = Self { addr, path, _driver: driver };
        let begun = browser.post("", json!({ "capabilities": { "alwaysMatch": capabilities } }));
        browser.path = format!("/session/{}", begun["sessionId"].as_str().unwrap());
        Some(browser)
    }

    /// The value that a command returns, or what the driver says of its failure.
    fn command(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let reply = ask(self.addr, method, &format!("{}{path}", self.path), &[], body.as_bytes());
        let value = serde_json::from_slice::<Value>(&reply.body).unwrap()["value"].take();
        if reply.status == 200 { Ok(value) } else { Err(value["message"].to_string()) }
    }

    fn post(&self, path: &str, body: Value) -> Value {
        self.command("POST", path, &body).unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    fn get(&self, path: &str) -> Value {
        self.command("GET", path, &Value::Null).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("/url", json!({ "url": url }));
    }

    /// Follows a link to `url`, which may be a download and no page.
    pub(crate) fn visit(&self, url: &str) {
        drop(self.command("POST", "/url", &json!({ "url": url })));
    }

    pub(crate) fn address(&self) -> String {
        self.get("/url").as_str().unwrap().to_owned()
    }

    pub(crate) fn value(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": [] }))
    }

    pub(crate) fn until(&self, condition: &str) {
        let began = Instant::now();
        while self.value(&format!("return Boolean({condition})")) != true {
            if began.elapsed() > LIMIT {
                let shown = self.value("return document.body.innerText");
                panic!("not so: {condition}\nthe page shows: {}", shown.as_str().unwrap_or_default());
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn act(&self, selector: &str, action: &str, body: Value) {
        loop {
            self.until(&format!("document.querySelector({})", json!(selector)));
            let found = self.post("/element", json!({ "using": "css selector", "value": selector }));
            let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap();
            match self.command("POST", &format!("/element/{id}/{action}"), &body) {
                Err(error) if error.contains("stale element") => {} // the page has put another in its place since
                ended => return drop(ended.unwrap_or_else(|error| panic!("{action} {selector}: {error}"))),
            }
        }
    }

    pub(crate) fn click(&self, selector: &str) {
        self.act(selector, "click", json!({}));
    }

    pub(crate) fn click_until(&self, selector: &str, condition: &str) {
        self.click(selector);
        self.until(condition);
    }

    pub(crate) fn clear(&self, selector: &str) {
        self.act(selector, "clear", json!({}));
    }

    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        self.act(selector, "value", json!({ "text": text }));
    }

    pub(crate) fn press(&self, key: char) {
        let stroke = |kind| json!({ "type": kind, "value": key.to_string() });
        let keys =
            json!({ "type": "key", "id": "keyboard", "actions": [stroke("keyDown"), stroke("keyUp")] });
        self.post("/actions", json!({ "actions": [keys] }));
    }

    pub(crate) fn tool(&self, command: &str, params: Value) -> Value {
        self.post("/goog/cdp/execute", json!({ "cmd": command, "params": params }))
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        self.post("/se/log", json!({ "type": kind })).as_array().unwrap().clone()
    }

    /// What is in the console, errors and violations of the content security policy among it, and which hosts pages asked
    /// for something, both since this was asked last.
    pub(crate) fn console_and_hosts(&self) -> (Vec<String>, Vec<String>) {
        let console = self.log("browser");
        let console =
            console.iter().map(|entry| format!("{} {}", entry["level"], entry["message"])).collect();
        let mut hosts = Vec::new();
        for entry in self.log("performance") {
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
    pub(crate) fn appear(&self, width: u32, theme: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": theme },
            { "name": "prefers-reduced-motion", "value": "reduce" }, // nothing is between two colours
        ]);
        self.tool("Emulation.setEmulatedMedia", json!({ "features": features }));
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.tool("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub(crate) fn picture(&self) -> Vec<u8> {
        let size = self.value("const e = document.documentElement; return [e.clientWidth, e.scrollHeight]");
        let metrics = json!({ "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": false });
        self.tool("Emulation.setDeviceMetricsOverride", metrics);
        BASE64.decode(self.get("/screenshot").as_str().unwrap().as_bytes()).unwrap()
    }

    pub(crate) fn close(self) {
        self.command("DELETE", "", &Value::Null).unwrap();
    }
}

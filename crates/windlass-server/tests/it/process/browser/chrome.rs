//! A real browser: Debian's chromium, through its chromedriver. Both end with the test.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use thirtyfour::ChromiumLikeCapabilities as _;
use thirtyfour::prelude::{By, DesiredCapabilities, WebDriver, WebElement};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use windlass_testing::holds_in_time;

use crate::support::plain_http;

pub(crate) struct Chrome {
    pub(crate) driver: WebDriver,
    pub(crate) base: String,
    chromedriver: Child,
    port: u16,
    profile: PathBuf,
}

impl Chrome {
    pub(crate) async fn open(base: &str) -> Self {
        let (chromedriver, port) = start().await;
        let profile =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chrome-{}", uuid::Uuid::new_v4().simple()));
        let mut wanted = DesiredCapabilities::chrome();
        for flag in [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--window-size=1440,900",
            &format!("--user-data-dir={}", profile.display()),
        ] {
            wanted.add_arg(flag).unwrap();
        }
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), wanted).await.unwrap();
        driver.set_page_load_timeout(Duration::from_secs(60)).await.unwrap();
        driver.set_script_timeout(Duration::from_secs(60)).await.unwrap();
        Self { driver, base: base.to_owned(), chromedriver, port, profile }
    }

    pub(crate) async fn go(&self, path: &str) {
        self.driver.goto(format!("{}{path}", self.base)).await.unwrap();
    }

    /// Signs in with a token, as its holder does.
    pub(crate) async fn sign_in(&self, token: &str) {
        self.driver.delete_all_cookies().await.unwrap();
        self.go("/ui/sign-in").await;
        self.click("summary").await;
        self.fill("#token", token).await;
        self.click("details button").await;
        self.until("a session exists", async || {
            let path = self.path().await;
            path.starts_with("/ui/jobs") || path == "/ui/overview"
        })
        .await;
    }

    /// Signs in with an address and a password, as a person does.
    pub(crate) async fn enter(&self, email: &str) {
        self.driver.delete_all_cookies().await.unwrap();
        self.go("/ui/sign-in").await;
        self.fill("#email", email).await;
        self.fill("#password", crate::support::people::PASSWORD).await;
        self.click("form button.main").await;
        self.until("a session exists", async || self.path().await != "/ui/sign-in").await;
    }

    /// Switches to a tenant, as a super-admin may.
    pub(crate) async fn choose(&self, tenant: uuid::Uuid) {
        assert_eq!(self.post("/ui/tenant", &format!("tenant={tenant}")).await, 200);
    }

    /// Sends a form from the open page, and returns the final status.
    pub(crate) async fn post(&self, path: &str, form: &str) -> u64 {
        let script = "const done = arguments[2]; const body = new URLSearchParams(arguments[1]); \
            const stamp = document.querySelector('input[name=acting_for]'); if (stamp) body.append('acting_for', stamp.value); \
            fetch(arguments[0], {method: 'POST', body}).then(r => done(r.status), e => done(String(e)));";
        let result = self.driver.execute_async(script, vec![json!(path), json!(form)]).await.unwrap();
        result.json().as_u64().unwrap_or_else(|| panic!("{path}: {}", result.json()))
    }

    pub(crate) async fn path(&self) -> String {
        self.driver.current_url().await.unwrap().path().to_owned()
    }

    pub(crate) async fn find(&self, css: &str) -> WebElement {
        self.until(&format!("{css} is there"), async || self.has(css).await).await;
        self.driver.find(By::Css(css)).await.unwrap()
    }

    pub(crate) async fn has(&self, css: &str) -> bool {
        !self.driver.find_all(By::Css(css)).await.unwrap().is_empty()
    }

    pub(crate) async fn click(&self, css: &str) {
        let element = self.find(css).await;
        element.scroll_into_view().await.unwrap();
        element.click().await.unwrap();
    }

    pub(crate) async fn fill(&self, css: &str, text: &str) {
        let element = self.find(css).await;
        element.clear().await.unwrap();
        element.send_keys(text).await.unwrap();
    }

    /// The visible text of an element, or an empty one. It may be replaced while it is read.
    pub(crate) async fn text(&self, css: &str) -> String {
        let script = "const e = document.querySelector(arguments[0]); return e ? e.innerText : '';";
        let result = self.driver.execute(script, vec![json!(css)]).await.unwrap();
        result.json().as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn script(&self, script: &str) -> Value {
        self.driver.execute(script, vec![]).await.unwrap().json().clone()
    }

    /// Waits until the page shows it, or panics with what it shows instead.
    pub(crate) async fn until(&self, what: &str, condition: impl AsyncFnMut() -> bool) {
        if !holds_in_time(condition).await {
            let focus = self.script("return document.activeElement?.cloneNode().outerHTML").await;
            let (path, page) = (self.path().await, self.text("body").await);
            panic!("not in the browser: {what}\n{path} has the focus on {focus} and shows:\n{page}");
        }
    }

    pub(crate) async fn until_text(&self, css: &str, wanted: &str) {
        self.until(&format!("{css} shows {wanted:?}"), async || self.text(css).await.contains(wanted)).await;
    }

    pub(crate) async fn size(&self, width: u32, height: u32) {
        let screen = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", screen).await;
    }

    pub(crate) async fn theme(&self, theme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    pub(crate) async fn devtools(&self, command: &str, params: Value) -> Value {
        let session = self.driver.session_id();
        let address = format!("http://127.0.0.1:{}/session/{session}/goog/cdp/execute", self.port);
        let client = plain_http().build().unwrap();
        let result =
            client.post(address).json(&json!({"cmd": command, "params": params})).send().await.unwrap();
        let result: Value = result.json().await.unwrap();
        assert!(result["value"]["error"].is_null(), "{command}: {result}");
        result["value"].clone()
    }

    /// A screenshot of the whole page, at most three screens of it.
    pub(crate) async fn picture(&self, path: &Path) {
        let height =
            self.script("return document.documentElement.scrollHeight").await.as_f64().unwrap_or(900.0);
        let width = self.script("return innerWidth").await.as_f64().unwrap_or(1440.0);
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height.min(2700.0), "scale": 1});
        let shot = self
            .devtools("Page.captureScreenshot", json!({"clip": clip, "captureBeyondViewport": true}))
            .await;
        use base64::Engine as _;
        let data = shot["data"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// The messages of the browser since the last call: violations of the content security policy, errors of our script.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let script = "const all = window.complaints || []; window.complaints = []; return all;";
        let seen = self.script(script).await;
        seen.as_array().into_iter().flatten().filter_map(|each| each.as_str().map(str::to_owned)).collect()
    }

    /// Records the errors of every page that is opened from now on.
    pub(crate) async fn watch_complaints(&self) {
        let source = "window.complaints = []; \
            addEventListener('securitypolicyviolation', e => complaints.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI)); \
            addEventListener('error', e => complaints.push('error: ' + e.message)); \
            addEventListener('unhandledrejection', e => complaints.push('rejection: ' + e.reason));";
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": source})).await;
    }

    pub(crate) async fn close(mut self) {
        let _ = self.driver.clone().quit().await;
        let _ = self.chromedriver.kill().await;
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// On a port of its own choice, which it prints when it is ready.
async fn start() -> (Child, u16) {
    let mut chromedriver = Command::new("chromedriver")
        .args(["--port=0", "--allowed-ips=127.0.0.1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("chromedriver is missing: install Debian's chromium and chromium-driver (./dev test does)");
    let mut lines = BufReader::new(chromedriver.stdout.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("chromedriver ended before it was ready");
        if let Some((_, rest)) = line.split_once("started successfully on port ") {
            let port = rest.trim_end_matches('.').trim().parse().unwrap();
            // Its later output must not fill the pipe.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return (chromedriver, port);
        }
    }
}

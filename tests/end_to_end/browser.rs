//! A real Chromium, driven over WebDriver (W3C), which is JSON over HTTP: Debian's chromium-driver.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Keys as WebDriver writes them.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const ESCAPE: &str = "\u{e00c}";
pub(crate) const RIGHT: &str = "\u{e014}";
pub(crate) const DOWN: &str = "\u{e015}";

/// A browser with one window; it ends with this value.
pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let path = format!("/session/{}", self.session);
        let _ = ask(self.address, "DELETE", &path, &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// Starts one; `None` where there is none.
    pub(crate) fn start(folder: &Path) -> Option<Browser> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        let driver = Command::new("chromedriver")
            .arg(format!("--port={}", address.port()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut browser = Browser {
            driver,
            address,
            session: String::new(),
        };
        let begun = Instant::now();
        while ask(address, "GET", "/status", &json!({})).is_none() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "chromedriver does not answer"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        let data = format!("--user-data-dir={}", folder.join("browser").display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1400,1600",
            &data,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": arguments } } } });
        let answer = ask(address, "POST", "/session", &wanted).expect("a session");
        let session = answer["value"]["sessionId"].as_str();
        browser.session = session
            .unwrap_or_else(|| panic!("no session: {answer}"))
            .to_owned();
        Some(browser)
    }

    fn call(&self, path: &str, body: Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        let answer = ask(self.address, "POST", &path, &body);
        let mut answer = answer.unwrap_or_else(|| panic!("{path}: no answer"));
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].take()
    }

    /// Opens an address.
    pub(crate) fn open(&self, url: &str) {
        self.call("/url", json!({ "url": url }));
    }

    /// What a script returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.call("/execute/sync", json!({ "script": script, "args": [] }))
    }

    /// Types keys wherever the focus is.
    pub(crate) fn keys(&self, keys: &str) {
        let steps: Vec<Value> = (keys.chars())
            .flat_map(|key| {
                let step = |kind: &str| json!({ "type": kind, "value": key.to_string() });
                [step("keyDown"), step("keyUp")]
            })
            .collect();
        self.call(
            "/actions",
            json!({ "actions": [{ "type": "key", "id": "keys", "actions": steps }] }),
        );
    }

    /// Waits until a script returns something true, and gives that.
    pub(crate) fn until(&self, what: &str, script: &str) -> Value {
        let begun = Instant::now();
        loop {
            let found = self.run(script);
            if found != Value::Null && found != Value::Bool(false) && found != json!("") {
                return found;
            }
            if begun.elapsed() >= Duration::from_secs(30) {
                let seen = self.run("return document.body.innerText.slice(0, 4000)");
                panic!(
                    "no {what}; the page shows:\n{}",
                    seen.as_str().unwrap_or("")
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Writes the window to `NAME.png` in the folder that `SCREENSHOTS` names, if it does.
    pub(crate) fn screenshot(&self, name: &str) {
        let Some(folder) = std::env::var_os("SCREENSHOTS") else {
            return;
        };
        let path = format!("/session/{}/screenshot", self.session);
        let answer = ask(self.address, "GET", &path, &json!({})).expect("a picture");
        let text = answer["value"].as_str().expect("base 64");
        let file = Path::new(&folder).join(format!("{name}.png"));
        let output = std::fs::File::create(file).expect("its file");
        let mut decode = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(output)
            .spawn()
            .expect("base64 runs");
        decode
            .stdin
            .take()
            .expect("its input")
            .write_all(text.as_bytes())
            .expect("it reads");
        assert!(decode.wait().expect("it ends").success());
    }
}

fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .ok()?;
    let body = if method == "GET" {
        String::new()
    } else {
        body.to_string()
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    // It keeps the connection whatever it is asked, so the length decides.
    let mut text = Vec::new();
    let mut part = [0; 65536];
    loop {
        if let Some(end) = text
            .windows(4)
            .position(|window: &[u8]| window == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&text[..end]).to_lowercase();
            let length = head.lines().find_map(|line| {
                line.strip_prefix("content-length:")?
                    .trim()
                    .parse::<usize>()
                    .ok()
            })?;
            if text.len() >= end + 4 + length {
                return serde_json::from_slice(&text[end + 4..end + 4 + length]).ok();
            }
        }
        match stream.read(&mut part).ok()? {
            0 => return None,
            read => text.extend_from_slice(&part[..read]),
        }
    }
}

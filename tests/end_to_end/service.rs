//! The switch as a service: its unit is sound, and it tells a service manager that it is ready, alive and
//! ending, as systemd would hear it.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::{binary, root, spraycheck};

/// The unit, with the command where this build has it.
fn unit() -> String {
    let path = root().join("scripts/systemd/spraycheck@.service");
    let text = std::fs::read_to_string(path).expect("the unit");
    let installed = "/usr/local/bin/spraycheck";
    assert!(text.contains(installed));
    text.replace(installed, &binary("spraycheck").display().to_string())
}

#[test]
fn the_unit_is_verified_by_systemd() {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        println!("skipped: it needs `systemd-analyze` (Debian package systemd)");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spraycheck@leaf0.service");
    std::fs::write(&path, unit()).expect("a file");
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&path)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    // It exits with 0 for keys that it does not know, but says so.
    assert!(!said.contains("spraycheck@leaf0.service:"), "{said}");
}

/// The file of a leaf on devices that need nothing.
pub(crate) fn leaf(name: &str) -> String {
    let example =
        std::fs::read_to_string(root().join("docs/examples/leaf0.toml")).expect("the example");
    let mut text = example
        .replacen("name = \"leaf0\"", &format!("name = \"{name}\""), 1)
        .replacen("# device = \"0000:03:00.0\"", "device = \"net_null9\" #", 1)
        .replacen("memory = \"auto\"", "memory = \"no-huge\"", 1)
        .replacen("packets = 32768", "packets = 2048", 1)
        .replacen("idle = \"poll\" ", "idle = \"sleep\" ", 1);
    for uplink in 0..4 {
        let peer = format!("peer = \"spine{uplink}\"");
        text = text.replacen(&peer, &format!("{peer}\ndevice = \"net_null{uplink}\""), 1);
    }
    text
}

/// The unit under a name of this process, as systemd of this machine has it; gone when dropped.
struct Installed {
    unit: String,
    instance: String,
    folder: PathBuf,
}

impl Installed {
    /// What keeps it from being installed here, or the unit.
    fn new() -> Result<Installed, &'static str> {
        // As sd_booted(3) looks for it.
        if !Path::new("/run/systemd/system").is_dir() {
            return Err("systemd does not run here (it is not process 1)");
        }
        if !rustix::process::geteuid().is_root() {
            return Err("it needs root");
        }
        let id = std::process::id();
        let own = Installed {
            unit: format!("/run/systemd/system/spraytest{id}@.service"),
            instance: format!("spraytest{id}@t{id}"),
            // Neither in /tmp nor at home, which the unit does not see.
            folder: format!("/var/lib/spraytest{id}").into(),
        };
        std::fs::create_dir_all(&own.folder).expect("a folder");
        for name in ["spraycheck", "spraycheckd"] {
            std::fs::copy(binary(name), own.folder.join(name)).expect("a copy");
        }
        let file = own.folder.join(format!("t{id}.toml"));
        std::fs::write(file, leaf(&format!("t{id}"))).expect("a file");
        let there = own.folder.display().to_string();
        let text = unit()
            .replace(
                &binary("spraycheck").display().to_string(),
                &format!("{there}/spraycheck"),
            )
            .replace("/etc/spraycheck/", &format!("{there}/"));
        std::fs::write(&own.unit, text).expect("a file");
        systemctl(&["daemon-reload"]);
        Ok(own)
    }

    fn property(&self, name: &str) -> String {
        systemctl(&["show", "--value", "--property", name, &self.instance])
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = Command::new("systemctl")
            .args(["stop", &self.instance])
            .status();
        let _ = std::fs::remove_file(&self.unit);
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = Command::new("systemctl").arg("daemon-reload").status();
    }
}

/// What it says; it must succeed.
fn systemctl(arguments: &[&str]) -> String {
    let output = Command::new("systemctl")
        .args(arguments)
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "systemctl {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Runs the test again as a service of a systemd in a container, for where none is process 1. Whether it
/// could.
fn in_a_container() -> bool {
    let test = std::env::current_exe().expect("a running test has a path");
    let output = Command::new(root().join("tests/systemd/boot"))
        .arg(test)
        .args([
            "service::the_unit_runs_under_systemd",
            "--exact",
            "--nocapture",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("the script runs");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    match output.status.code() {
        Some(0) => assert!(said.contains("1 passed"), "{said}"),
        Some(125) => println!("no systemd comes up in a container: {said}"),
        _ => panic!("in a container: {said}"),
    }
    output.status.success()
}

/// Goal: under a systemd that runs, be it in a container, the unit starts, is ready when `start` returns, answers, reloads, comes
/// back when it is killed, and stops with success.
#[test]
fn the_unit_runs_under_systemd() {
    let installed = match Installed::new() {
        Ok(installed) => installed,
        Err(why) => {
            let is_root = rustix::process::geteuid().is_root();
            let is_tried = std::env::var_os("BOOTED").is_some();
            if is_tried || !is_root || !in_a_container() {
                println!("skipped: {why}");
            }
            return;
        }
    };
    systemctl(&["start", &installed.instance]);
    assert_eq!(installed.property("ActiveState"), "active");
    let socket = format!("/run/spraycheck-t{}/control.sock", std::process::id());
    let show = || spraycheck(&["show", "version", "--socket", &socket]);
    assert_eq!(show().status, 0, "{}", show().stderr);
    systemctl(&["reload", &installed.instance]);
    assert_eq!(installed.property("ActiveState"), "active");
    systemctl(&["kill", "--signal=KILL", &installed.instance]);
    let killed = Instant::now();
    while installed.property("NRestarts") != "1" || show().status != 0 {
        assert!(
            killed.elapsed() < Duration::from_secs(60),
            "it is started again"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    systemctl(&["stop", &installed.instance]);
    assert_eq!(installed.property("Result"), "success");
    assert_eq!(installed.property("ActiveState"), "inactive");
}

#[test]
fn a_service_manager_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("leaf0.toml");
    std::fs::write(&config, leaf(&format!("serv{}", std::process::id()))).expect("a file");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a timeout");
    let hear = || {
        let mut bytes = [0; 256];
        let count = manager.recv(&mut bytes).expect("a message within a minute");
        String::from_utf8_lossy(&bytes[..count])
            .trim_end()
            .to_owned()
    };
    let mut switch = Command::new(binary("spraycheck"))
        .args(["switch", "--config"])
        .arg(&config)
        .arg("--socket")
        .arg(folder.path().join("s"))
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    assert_eq!(hear(), "READY=1");
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
    let kill = Command::new("kill")
        .args(["-TERM", &switch.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    let mut said = hear();
    while said == "WATCHDOG=1" {
        said = hear();
    }
    assert_eq!(said, "STOPPING=1");
    assert!(switch.wait().expect("it ends").success());
}

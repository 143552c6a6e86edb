//! The switch as a service: its unit is sound, and it tells a service manager that it is ready, alive and
//! ending, as systemd would hear it.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::run::{binary, root};

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

#[test]
fn a_service_manager_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let example =
        std::fs::read_to_string(root().join("docs/examples/leaf0.toml")).expect("the example");
    let mut text = example
        .replacen(
            "name = \"leaf0\"",
            &format!("name = \"serv{}\"", std::process::id()),
            1,
        )
        .replacen("# device = \"0000:03:00.0\"", "device = \"net_null9\" #", 1)
        .replacen("memory = \"auto\"", "memory = \"no-huge\"", 1)
        .replacen("packets = 32768", "packets = 2048", 1)
        .replacen("idle = \"poll\" ", "idle = \"sleep\" ", 1);
    for uplink in 0..4 {
        let peer = format!("peer = \"spine{uplink}\"");
        text = text.replacen(&peer, &format!("{peer}\ndevice = \"net_null{uplink}\""), 1);
    }
    let config = folder.path().join("leaf0.toml");
    std::fs::write(&config, text).expect("a file");
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

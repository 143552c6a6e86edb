//! The commands under `/spraycheck/` on DPDK's telemetry socket, asked as `dpdk-telemetry.py` asks.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket,
};
use serde_json::Value;

use crate::run::{Started, spraycheck};

/// Where DPDK of this user keeps its runtime files.
fn runtime_folders() -> Vec<PathBuf> {
    let of_environment = ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"];
    let named = of_environment.into_iter().filter_map(std::env::var_os);
    let all = named
        .map(PathBuf::from)
        .chain(["/var/run".into(), "/tmp".into()]);
    all.map(|folder: PathBuf| folder.join("dpdk")).collect()
}

/// A client of DPDK's protocol: SOCK_SEQPACKET, a greeting, then a request and an answer each.
struct Client(OwnedFd);

impl Client {
    fn connect(prefix: &str) -> Client {
        let started = Instant::now();
        loop {
            for folder in runtime_folders() {
                let path = folder.join(prefix).join("dpdk_telemetry.v2");
                if let Some(client) = Client::to(&path) {
                    return client;
                }
            }
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "no telemetry socket of {prefix} in {:?}",
                runtime_folders()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn to(path: &Path) -> Option<Client> {
        let address = SocketAddrUnix::new(path).ok()?;
        let own = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        connect(&own, &address).ok()?;
        let client = Client(own);
        assert!(client.hear().get("version").is_some(), "a greeting");
        Some(client)
    }

    fn hear(&self) -> Value {
        let mut bytes = vec![0_u8; 1 << 16];
        let (count, _) = recv(&self.0, &mut bytes[..], RecvFlags::empty()).expect("an answer");
        serde_json::from_slice(&bytes[..count]).expect("JSON")
    }

    /// The answer to `request`, without the command's name around it.
    fn ask(&self, request: &str) -> Value {
        send(&self.0, request.as_bytes(), SendFlags::empty()).expect("it listens");
        let answer = self.hear();
        let command = request.split(',').next().expect("a command");
        answer
            .get(command)
            .unwrap_or_else(|| panic!("{request}: {answer}"))
            .clone()
    }

    fn list(&self, request: &str) -> Vec<String> {
        let answer = self.ask(request);
        let list = answer
            .as_array()
            .unwrap_or_else(|| panic!("{request}: {answer}"));
        list.iter()
            .map(|one| one.as_str().expect("a text").to_owned())
            .collect()
    }
}

/// Goal: each command has its help, lists what there is, and tells numbers that move; a wrong name is said.
#[test]
fn a_switch_answers_dpdk_telemetry() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("tele{}", std::process::id());
    // Frames of net_null are no packets of a host: each is received, and dropped with its reason.
    let text = crate::service::leaf(&name);
    let config = folder.path().join("leaf0.toml");
    std::fs::write(&config, text).expect("a file");
    let (config, socket) = (config.display().to_string(), folder.path().join("s"));
    let socket = socket.display().to_string();
    let switch = Started::new(&["switch", "--config", &config, "--socket", &socket]);
    let client = Client::connect(&name);
    let started = Instant::now();
    while !client.list("/").contains(&"/spraycheck/ports".to_owned()) {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "registered soon after start"
        );
        std::thread::sleep(Duration::from_millis(50));
    }

    let ports = client.list("/spraycheck/ports");
    let port = format!("{name}.host0");
    assert_eq!((ports.len(), &ports[0]), (5, &port));
    assert_eq!(
        client.list("/spraycheck/spines"),
        std::slice::from_ref(&name)
    );
    assert_eq!(client.list("/spraycheck/lcores"), ["1"]);
    assert!(
        client.list("/spraycheck/links").is_empty(),
        "nothing was measured"
    );
    let number = |request: &str, key: &str| {
        let answer = client.ask(request);
        answer[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{request}: no {key} in {answer}"))
    };
    let (of_port, of_lcore) = (format!("/spraycheck/ports,{port}"), "/spraycheck/lcores,1");
    let before = (number(&of_port, "in_pkts"), number(of_lcore, "rounds"));
    let started = Instant::now();
    while number(&of_port, "in_pkts") <= before.0 || number(of_lcore, "rounds") <= before.1 {
        assert!(started.elapsed() < Duration::from_secs(30), "they move");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The same numbers as the control socket's.
    let drops = client.ask("/spraycheck/drops");
    let shown = spraycheck(&["show", "drops", "--socket", &socket, "--json", "-"]).json();
    for row in shown["rows"].as_array().expect("rows") {
        if let ("drop", Some(reason)) = (row["kind"].as_str().unwrap_or(""), row["reason"].as_str())
        {
            let key = format!("drop_{}", reason.replace('-', "_"));
            let (told, shown) = (drops[&key].as_u64(), row["packets"].as_u64());
            assert!(
                told.is_some() && told <= shown,
                "{key}: {told:?}, then {shown:?}"
            );
        }
    }
    let spines = client.ask(&format!("/spraycheck/spines,{name}"));
    assert_eq!(spines["state"], "none", "{spines}");
    for command in ["ports", "drops", "spines", "lcores", "links"] {
        let help = client
            .ask(&format!("/help,/spraycheck/{command}"))
            .to_string();
        assert!(help.contains("Parameters:"), "{command}: {help}");
        let wrong = client
            .ask(&format!("/spraycheck/{command},weather"))
            .to_string();
        assert!(wrong.contains("weather"), "{command}: {wrong}");
    }
    let kill = Command::new("kill")
        .args(["-TERM", &switch.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    let done = switch.wait();
    assert_eq!(done.status, 0, "{}", done.stderr);
}

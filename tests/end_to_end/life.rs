//! How a switch starts and stops: under full load it ends when told and starts again at once; what it
//! lacks is said with the cure, by exit status 3.
//!
//! `RESTARTS` is how often the first is done (3 unless said; `scripts/trust restart` does 50), and
//! `STOP_MS` how long a stop may take (5000 unless said, for a machine that tests share; 2000 there).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::run::{Started, binary, root, spraycheck};

/// Packets that must have come in before a stop: far more than fit into all queues.
pub(crate) const LOAD_PACKETS: u64 = 200_000;
/// A start may take so long on a busy machine.
pub(crate) const START: Duration = Duration::from_secs(60);

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// The example's leaf, whose host port receives a capture over and over as fast as it is polled, and
/// whose uplinks take everything.
pub(crate) fn leaf(folder: &Path, name: &str, change: impl Fn(&str) -> String) -> PathBuf {
    let example =
        std::fs::read_to_string(root().join("docs/examples/leaf0.toml")).expect("the example");
    let capture = root().join("tests/corpus/rxe-rc-write.pcap");
    let mut text = example
        .replacen("name = \"leaf0\"", &format!("name = \"{name}\""), 1)
        .replacen(
            "# device = \"0000:03:00.0\"",
            &format!(
                "device = \"net_pcap0,rx_pcap={},infinite_rx=1\" #",
                capture.display()
            ),
            1,
        )
        .replacen("memory = \"auto\"", "memory = \"no-huge\"", 1)
        .replacen("packets = 32768", "packets = 2048", 1);
    for uplink in 0..4 {
        let peer = format!("peer = \"spine{uplink}\"");
        text = text.replacen(&peer, &format!("{peer}\ndevice = \"net_null{uplink}\""), 1);
    }
    let path = folder.join("leaf0.toml");
    std::fs::write(&path, change(&text)).expect("a file");
    path
}

/// Packets that the ports of the switch on that socket have received; `None` while it starts.
pub(crate) fn received(socket: &str) -> Option<u64> {
    let done = spraycheck(&["show", "ports", "--socket", socket, "--json", "-"]);
    if done.status != 0 {
        return None;
    }
    let json = done.json();
    let rows = json["rows"].as_array().expect("rows");
    Some(rows.iter().filter_map(|row| row["in_pkts"].as_u64()).sum())
}

pub(crate) fn terminate(id: u32) {
    let kill = Command::new("kill")
        .args(["-TERM", &id.to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
}

#[test]
fn a_loaded_switch_stops_when_told_and_starts_again_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = leaf(
        folder.path(),
        &format!("life{}", std::process::id()),
        str::to_owned,
    );
    let config = config.display().to_string();
    let socket = folder.path().join("s").display().to_string();
    let limit = Duration::from_millis(number("STOP_MS", 5000));
    let (mut slowest, restarts) = (Duration::ZERO, number("RESTARTS", 3));
    for round in 0..restarts {
        let begun = Instant::now();
        let switch = Started::new(&[
            "switch", "--config", &config, "--socket", &socket, "--json", "-",
        ]);
        while received(&socket).is_none_or(|packets| packets < LOAD_PACKETS) {
            assert!(
                begun.elapsed() < START,
                "round {round}: no load within {START:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let told = Instant::now();
        terminate(switch.id());
        let done = switch.wait();
        let took = told.elapsed();
        assert_eq!(done.status, 0, "round {round}: {}", done.stderr);
        assert!(took < limit, "round {round}: it took {took:?} to stop");
        let counters = done.json();
        assert_eq!(
            counters["conservation_ok"],
            Value::Bool(true),
            "round {round}: {counters}"
        );
        assert!(
            !Path::new(&socket).exists(),
            "round {round}: the socket is left behind"
        );
        slowest = slowest.max(took);
    }
    println!("{restarts} times stopped under load, the slowest within {slowest:?}");
}

/// Starts a switch that cannot run; its exit status must be 3. Returns what it says.
fn refused(config: &Path, before: &[&str]) -> String {
    let socket = config.with_extension("sock");
    let program = binary("spraycheck");
    let mut words: Vec<&std::ffi::OsStr> = before.iter().map(AsRef::as_ref).collect();
    words.extend([
        program.as_os_str(),
        "switch".as_ref(),
        "--config".as_ref(),
        config.as_os_str(),
    ]);
    words.extend(["--socket".as_ref(), socket.as_os_str()]);
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    text
}

#[test]
fn what_a_switch_lacks_is_said_with_the_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("lack{}", std::process::id());
    let with = |change: &dyn Fn(&str) -> String| leaf(folder.path(), &name, change);

    let config = with(&|text| {
        text.replacen("memory = \"no-huge\"", "memory = \"hugepages\"", 1)
            .replacen("size = \"256MiB\"", "size = \"1024GiB\"", 1)
    });
    let said = refused(&config, &[]);
    assert!(
        said.contains("not enough free hugepages: need 1048576 MiB, have "),
        "{said}"
    );
    assert!(said.contains("scripts/hugepages"), "{said}");

    let config = with(&|text| {
        text.replacen("net_null0", "net_af_packet0,iface=nowhere9", 1)
            .replace("mtu = 4200", "mtu = 1500")
            .replace(
                "mac = \"02:00:00:00:00:10\"",
                "mtu = 1500\nmac = \"02:00:00:00:00:10\"",
            )
    });
    let said = refused(&config, &[]);
    assert!(
        said.contains("is on interface nowhere9, which is not there; create it"),
        "{said}"
    );

    let config = with(&|text| text.replacen("net_null0", "0000:ff:1f.7", 1));
    let said = refused(&config, &[]);
    assert!(
        said.contains("there is no PCI device 0000:ff:1f.7; see `spraycheck doctor`"),
        "{said}"
    );

    // A capture that is not there: EAL itself reports success.
    let config = with(&|text| text.replacen("rxe-rc-write.pcap", "absent.pcap", 1));
    let said = refused(&config, &[]);
    assert!(said.contains("absent.pcap"), "{said}");

    let config = with(&|text| text.replacen("lcores = 1 ", "lcores = 2 ", 1));
    let said = refused(&config, &["taskset", "-c", "0"]);
    assert!(said.contains("eal.lcores = 2 need 2 CPUs"), "{said}");
    assert!(said.contains("AllowedCPUs="), "{said}");
}

#[test]
fn a_nic_of_the_kernel_is_refused_and_left_alone() {
    let nic = std::fs::read_dir("/sys/bus/pci/devices")
        .into_iter()
        .flatten()
        .flatten()
        .find(|entry| {
            let read =
                |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let driver = std::fs::read_link(entry.path().join("driver")).unwrap_or_default();
            read("class").starts_with("0x0200")
                && ["virtio-pci", "e1000", "e1000e", "igb", "ixgbe", "ena"]
                    .iter()
                    .any(|name| driver.ends_with(name))
        });
    let Some(nic) = nic else {
        println!("skipped: no NIC of this machine is on a driver of the kernel");
        return;
    };
    let address = nic.file_name().into_string().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let config = leaf(
        folder.path(),
        &format!("nic{}", std::process::id()),
        |text| text.replacen("net_null0", &address, 1),
    );
    let said = refused(&config, &[]);
    assert!(said.contains(&format!("{address} is driven by")), "{said}");
    assert!(said.contains("scripts/bind-ports"), "{said}");
    assert!(
        nic.path().join("driver").exists(),
        "{address} has lost its driver"
    );
}

#[test]
fn a_second_instance_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = leaf(
        folder.path(),
        &format!("two{}", std::process::id()),
        |text| text.replacen("idle = \"poll\" ", "idle = \"sleep\" ", 1),
    );
    let socket = folder.path().join("s").display().to_string();
    let first = Started::new(&[
        "switch",
        "--config",
        &config.display().to_string(),
        "--socket",
        &socket,
    ]);
    let begun = Instant::now();
    while received(&socket).is_none() {
        assert!(begun.elapsed() < START, "it did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = refused(&config, &[]);
    assert!(said.contains("another process (pid "), "{said}");
    assert!(said.contains("stop it, or choose another"), "{said}");
    // The first one has not noticed.
    assert!(received(&socket).is_some());
    terminate(first.id());
    assert_eq!(first.wait().status, 0);
}

/// Goal: faults come and go, links leave routing and come back, and files are read again, all under
/// load; the switch loses no packet by it, and conservation holds at the end.
#[test]
fn a_running_switch_is_changed_without_losing_a_packet() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("set{}", std::process::id());
    let config = leaf(folder.path(), &name, str::to_owned);
    let socket = folder.path().join("s").display().to_string();
    let switch = Started::new(&[
        "switch",
        "--config",
        &config.display().to_string(),
        "--socket",
        &socket,
        "--json",
        "-",
    ]);
    let begun = Instant::now();
    while received(&socket).is_none_or(|packets| packets < LOAD_PACKETS) {
        assert!(begun.elapsed() < START, "no load within {START:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let ask = |words: &[&str]| {
        let done = spraycheck(&[words, &["--socket", &socket, "--json", "-"]].concat());
        assert_eq!(done.status, 0, "{words:?}: {}", done.stderr);
        done.json()["rows"].clone()
    };
    let of = |rows: &Value, link: &str, key: &str| {
        let rows = rows.as_array().expect("rows");
        let row = rows
            .iter()
            .find(|row| row["link"] == link)
            .expect("the link");
        row[key].clone()
    };
    let injected = || {
        let rows = ask(&["show", "drops"]);
        let rows = rows.as_array().expect("rows").clone();
        let mut lost = rows.iter().filter(|row| row["reason"] == "injected-loss");
        lost.next()
            .and_then(|row| row["packets"].as_u64())
            .unwrap_or(0)
    };
    let sent = |port: &str| {
        let rows = ask(&["show", "ports"]);
        let rows = rows.as_array().expect("rows").clone();
        let row = rows
            .iter()
            .find(|row| row["port"] == port)
            .expect("the port");
        row["out_pkts"].as_u64().expect("a count")
    };
    let wait = |what: &str, look: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !look() {
            assert!(begun.elapsed() < START, "{what} within {START:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(injected(), 0);
    let rows = ask(&["fault", "add", "leaf0>spine1:drop=0.5"]);
    assert_eq!(
        of(&rows, "leaf0>spine1", "faults"),
        serde_json::json!(["drop=0.5"])
    );
    wait("a loss", &|| injected() > 100);
    let rows = ask(&["fault", "clear"]);
    assert_eq!(of(&rows, "leaf0>spine1", "faults"), serde_json::json!([]));
    // What was on its way through the ring of changes has come through.
    std::thread::sleep(Duration::from_millis(100));
    let lost = injected();
    let before = sent("up1");
    wait("traffic on the mended link", &|| {
        sent("up1") > before + 1000
    });
    assert_eq!(injected(), lost, "a cleared fault still takes packets");

    let rows = ask(&["set", "link", "leaf0>spine2", "off"]);
    assert_eq!(of(&rows, "leaf0>spine2", "routing"), "off");
    std::thread::sleep(Duration::from_millis(100));
    let (off, other) = (sent("up2"), sent("up3"));
    wait("traffic on other links", &|| sent("up3") > other + 1000);
    assert!(
        sent("up2") <= off + 100,
        "a link out of routing has traffic: {off} -> {}",
        sent("up2")
    );
    ask(&["set", "link", "leaf0>spine2", "on"]);
    wait("traffic on the link again", &|| sent("up2") > off + 1000);

    // A fault in the file comes into force when the file is read again; a wrong file changes nothing.
    let text = std::fs::read_to_string(&config).expect("the file");
    let faulty = text.replacen(
        "peer = \"spine3\"",
        "peer = \"spine3\"\nfaults = [\"drop=0.25\"]",
        1,
    );
    std::fs::write(&config, faulty).expect("a file");
    let hang_up = || {
        let kill = Command::new("kill")
            .args(["-HUP", &switch.id().to_string()])
            .status();
        assert!(kill.expect("kill runs").success());
    };
    hang_up();
    let faults = || of(&ask(&["fault", "list"]), "leaf0>spine3", "faults");
    wait("the file's fault", &|| {
        faults() == serde_json::json!(["drop=0.25"])
    });
    std::fs::write(&config, "nonsense = 1\n").expect("a file");
    hang_up();
    // Nothing shows when a file is refused; the command passes signals on every 50 ms.
    std::thread::sleep(Duration::from_secs(1));
    let before = sent("up0");
    wait("traffic", &|| sent("up0") > before + 1000);
    assert_eq!(faults(), serde_json::json!(["drop=0.25"]));
    std::fs::write(&config, text).expect("a file");
    hang_up();
    wait("the mended file", &|| faults() == serde_json::json!([]));

    // What was queued for the link that left went over others.
    let drops = ask(&["show", "drops"]);
    let drops = drops.as_array().expect("rows");
    assert!(
        drops.iter().all(|row| row["reason"] != "link-down"),
        "{drops:?}"
    );
    terminate(switch.id());
    let done = switch.wait();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(
        done.stderr.contains("the configuration is wrong"),
        "{}",
        done.stderr
    );
    let counters = done.json();
    assert_eq!(counters["conservation_ok"], Value::Bool(true), "{counters}");
}

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
const LOAD_PACKETS: u64 = 200_000;
/// A start may take so long on a busy machine.
const START: Duration = Duration::from_secs(60);

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// The example's leaf, whose host port receives a capture over and over as fast as it is polled, and
/// whose uplinks take everything.
fn leaf(folder: &Path, name: &str, change: impl Fn(&str) -> String) -> PathBuf {
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
        .replacen("memory = \"auto\"", "memory = \"no-huge\"", 1);
    for uplink in 0..4 {
        let peer = format!("peer = \"spine{uplink}\"");
        text = text.replacen(&peer, &format!("{peer}\ndevice = \"net_null{uplink}\""), 1);
    }
    let path = folder.join("leaf0.toml");
    std::fs::write(&path, change(&text)).expect("a file");
    path
}

/// Packets that the ports of the switch on that socket have received; `None` while it starts.
fn received(socket: &str) -> Option<u64> {
    let done = spraycheck(&["show", "ports", "--socket", socket, "--json", "-"]);
    if done.status != 0 {
        return None;
    }
    let json = done.json();
    let rows = json["rows"].as_array().expect("rows");
    Some(rows.iter().filter_map(|row| row["in_pkts"].as_u64()).sum())
}

fn terminate(id: u32) {
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

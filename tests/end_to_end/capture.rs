//! Captures of what runs: read by pcap-parser and tshark, judged by etherparse and an ICRC of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGReader};

use crate::oracle;
use crate::run::{Done, Started, root, spraycheck};

/// A packet of a capture.
struct Captured {
    interface: String,
    /// 1 received, 2 sent, 0 neither: dropped.
    flags: u32,
    comment: Option<String>,
    unix_ns: u64,
    wire_len: usize,
    frame: Vec<u8>,
}

/// A capture file.
#[derive(Default)]
struct Capture {
    interfaces: Vec<String>,
    packets: Vec<Captured>,
    /// Packets wanted and missed, by interface.
    counted: BTreeMap<String, (u64, u64)>,
}

fn read(path: &Path) -> Capture {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = PcapNGReader::new(1 << 20, file).expect("pcapng");
    let mut capture = Capture::default();
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                        assert_eq!((block.linktype.0, block.if_tsresol), (1, 9));
                        let name = block.if_name().expect("a name").expect("UTF-8");
                        capture.interfaces.push(name.to_owned());
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                        let option = |code| block.options.iter().find(|o| o.code == code);
                        let flags = option(OptionCode(2)).map(|o| o.as_u32_le().expect("a word"));
                        let comment = option(OptionCode(1)).map(|o| o.as_str().expect("UTF-8"));
                        capture.packets.push(Captured {
                            interface: capture.interfaces[block.if_id as usize].clone(),
                            flags: flags.unwrap_or(0),
                            comment: comment.map(str::to_owned),
                            unix_ns: u64::from(block.ts_high) << 32 | u64::from(block.ts_low),
                            wire_len: block.origlen as usize,
                            frame: block.packet_data().to_vec(),
                        });
                    }
                    PcapBlockOwned::NG(Block::InterfaceStatistics(block)) => {
                        let number = |code| {
                            let option = block.options.iter().find(|o| o.code == OptionCode(code));
                            option.expect("a count").as_u64_le().expect("a number")
                        };
                        let name = capture.interfaces[block.if_id as usize].clone();
                        capture.counted.insert(name, (number(6), number(5)));
                    }
                    _ => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return capture,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("the file is there"),
            Err(error) => panic!("{}: {error:?}", path.display()),
        }
    }
}

/// What runs until it is dropped.
struct Process {
    started: Option<Started>,
    socket: String,
}

impl Process {
    fn start(folder: &Path, arguments: &[&str]) -> Process {
        let socket = folder.join("socket").display().to_string();
        let mut all = arguments.to_vec();
        all.extend_from_slice(&["--socket", &socket, "--json", "-"]);
        let process = Process {
            started: Some(Started::new(&all)),
            socket,
        };
        let began = Instant::now();
        while process.ask(&["show", "version"]).status != 0 {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "it does not answer"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        process
    }

    fn ask(&self, arguments: &[&str]) -> Done {
        self.begin(arguments).wait()
    }

    fn begin(&self, arguments: &[&str]) -> Started {
        let mut all = arguments.to_vec();
        all.extend_from_slice(&["--socket", &self.socket]);
        Started::new(&all)
    }

    /// Captures into a file of that name, and demands that it goes well.
    fn capture(&self, path: &Path, arguments: &[&str]) -> Capture {
        let out = path.display().to_string();
        let mut all = vec!["capture", "--out", &out];
        all.extend_from_slice(arguments);
        let done = self.ask(&all);
        assert_eq!(done.status, 0, "{arguments:?}: {}", done.stderr);
        read(path)
    }

    fn stop(mut self) -> Done {
        let started = self.started.take().expect("it runs");
        tell(&started);
        started.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            tell(&started);
            started.wait();
        }
    }
}

fn tell(process: &Started) {
    let kill = Command::new("kill")
        .args(["-TERM", &process.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
}

/// Goal: a running testbed is captured without being stopped: by port, direction, filter, count, time
/// and signal; frames are whole and right, times in order, several captures at once and bounded.
#[test]
fn a_running_testbed_is_captured() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let testbed = Process::start(
        folder.path(),
        &[
            "testbed", "--leaves", "2", "--spines", "2", "--bytes", "64GiB", "--limit", "100s",
            "--fail", "none",
        ],
    );
    // One host port, both ways: as many as asked for.
    let capture = testbed.capture(&path("a"), &["--port", "leaf0.host0", "--count", "500"]);
    assert_eq!(capture.interfaces, ["leaf0.host0"]);
    assert_eq!(capture.packets.len(), 500);
    assert!(capture.packets.is_sorted_by_key(|packet| packet.unix_ns));
    for direction in [1, 2] {
        let of = capture.packets.iter().filter(|p| p.flags == direction);
        assert!(of.count() > 50, "packets go both ways");
    }
    for packet in &capture.packets {
        assert_eq!(packet.frame.len(), packet.wire_len);
        let ip = oracle::ip_packet(&packet.frame).expect("a right packet");
        let udp_at = ip.roce_udp_at.expect("RoCE");
        assert_eq!(
            oracle::icrc_is_right(&packet.frame, &ip),
            Some(true),
            "ICRC of UDP at {udp_at}"
        );
    }
    let (wanted, _) = capture.counted["leaf0.host0"];
    assert!(wanted >= 500, "{wanted} were wanted");
    // Marked packets leave over uplinks; none reaches a host.
    let filter = [
        "--filter",
        "roce,marked",
        "--direction",
        "out",
        "--count",
        "100",
    ];
    let marked = testbed.capture(
        &path("b"),
        &[&filter[..], &["--snaplen", "60", "--port", "spine0,spine1"]].concat(),
    );
    assert_eq!(
        marked.interfaces,
        [
            "leaf0.spine0",
            "leaf0.spine1",
            "leaf1.spine0",
            "leaf1.spine1"
        ]
    );
    for packet in &marked.packets {
        assert_eq!((packet.flags, packet.frame.len()), (2, 60));
        assert!(
            packet.wire_len > 60 && packet.frame[46] & 1 == 1,
            "marked, and cut"
        );
    }
    // One of ten, and the rest is not there: requests of one host in order of their PSN.
    let sampled = testbed.capture(
        &path("c"),
        &[
            "--port",
            "leaf0.host0",
            "--direction",
            "in",
            "--sample",
            "1/10",
            "--count",
            "50",
        ],
    );
    assert_eq!(sampled.packets.len(), 50);
    // Four at once run until they are told to end; a fifth is refused with the cure.
    let several: Vec<(PathBuf, Started)> = (0..4)
        .map(|number| {
            let out = path(&format!("s{number}"));
            let text = out.display().to_string();
            let arguments = [
                "capture",
                "--port",
                "leaf1.host0",
                "--snaplen",
                "64",
                "--out",
                &text,
            ];
            (out, testbed.begin(&arguments))
        })
        .collect();
    let began = Instant::now();
    loop {
        let rows = testbed.ask(&["show", "captures", "--json", "-"]).json()["rows"].clone();
        let rows = rows.as_array().expect("rows");
        if rows.len() == 4 && rows.iter().all(|row| row["captured"].as_u64() > Some(1000)) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{rows:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let fifth = path("fifth").display().to_string();
    let refused = testbed.ask(&["capture", "--count", "1", "--out", &fifth]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("4 captures"), "{}", refused.stderr);
    for (out, started) in several {
        tell(&started);
        let done = started.wait();
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(done.stderr.contains("told to end"), "{}", done.stderr);
        let capture = read(&out);
        let (wanted, missed) = capture.counted["leaf1.host0"];
        // What the lcore copied after the client had ended is in neither.
        assert!(
            capture.packets.len() as u64 + missed <= wanted,
            "{wanted} wanted, {missed} missed"
        );
        assert!(capture.packets.len() > 1000);
    }
    // Their places are free again; time ends one as well, and wrong names are told.
    let began = Instant::now();
    testbed.capture(&path("d"), &["--seconds", "1"]);
    assert!(began.elapsed() >= Duration::from_secs(1));
    for (arguments, told) in [
        (["--port", "leaf9.host0"], "leaf9.host0"),
        (["--filter", "tcp"], "\"tcp\""),
    ] {
        let refused = testbed.ask(&[&["capture", "--out", &fifth][..], &arguments].concat());
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    let result = testbed.stop().json();
    assert_eq!(result["conservation"]["ok"], true);
}

/// A leaf on so many lcores whose host port receives a capture over and over, by net_pcap; uplinks lead
/// nowhere.
fn leaf(folder: &Path, capture: &str, lcores: u8) -> PathBuf {
    let text = fs::read_to_string(root().join("docs/examples/leaf0.toml")).expect("the example");
    let input = root().join("tests/corpus").join(capture);
    let host = format!(
        "device = \"net_pcap_h,rx_pcap={},infinite_rx=1\"",
        input.display()
    );
    let mut with_devices = String::new();
    for line in text.lines() {
        with_devices += line;
        with_devices.push('\n');
        if line.starts_with("name = \"host0\"") {
            with_devices += &format!("{host}\n");
        } else if let Some(port) = line.strip_prefix("name = \"up") {
            let port = port.trim_end_matches('"');
            with_devices += &format!("device = \"net_null_u{port},no-rx=1\"\n");
        }
    }
    let name = format!("name = \"capture{}\"", std::process::id());
    let with_devices = with_devices
        .replacen("name = \"leaf0\"", &name, 1)
        .replace("memory = \"auto\"", "memory = \"no-huge\"")
        .replace("idle = \"poll\"", "idle = \"sleep\"")
        .replace("packets = 32768", "packets = 4096")
        .replace("\nlcores = 1", &format!("\nlcores = {lcores}"));
    let path = folder.join("leaf.toml");
    fs::write(&path, with_devices).expect("a file");
    path
}

/// Goal: a switch on devices says of each packet that it drops why, and tshark reads all that it
/// passes on.
#[test]
fn a_switch_says_why_it_drops() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let config = leaf(folder.path(), "crafted-odd.pcap", 1)
        .display()
        .to_string();
    let switch = Process::start(folder.path(), &["switch", "--config", &config]);
    let dropped = switch.capture(&path("d"), &["--filter", "dropped", "--count", "300"]);
    let mut reasons = BTreeMap::new();
    for packet in &dropped.packets {
        assert_eq!(packet.flags, 0, "it went neither way");
        let comment = packet.comment.as_deref().expect("a reason");
        let reason = comment.strip_prefix("dropped: ").expect("a reason");
        *reasons.entry(reason.to_owned()).or_insert(0u64) += 1;
        assert!(packet.interface.ends_with(".host0"), "{}", packet.interface);
    }
    let rows = switch.ask(&["show", "drops", "--json", "-"]).json()["rows"].clone();
    for reason in reasons.keys() {
        let is_it = |row: &serde_json::Value| row["reason"] == **reason && row["kind"] == "drop";
        assert!(
            rows.as_array().expect("rows").iter().any(is_it),
            "{reason}: {rows}"
        );
    }
    assert!(reasons.len() >= 2, "{reasons:?}");
    let result = switch.stop().json();
    assert_eq!(result["conservation_ok"], true, "{result}");
}

/// Goal: tshark decodes every packet of a capture of a real stack's traffic, on the host port and on
/// the uplinks.
#[test]
fn tshark_reads_a_capture() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: it needs `tshark` (scripts/packages tests brings it)");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("roce.pcapng");
    let config = leaf(folder.path(), "rxe-rc-write.pcap", 2)
        .display()
        .to_string();
    let switch = Process::start(folder.path(), &["switch", "--config", &config]);
    let capture = switch.capture(
        &path,
        &[
            "--filter",
            "roce,ip=10.77.0.1",
            "--direction",
            "in,out",
            // Over a while, so that both lcores have their share of it.
            "--sample",
            "1/64",
            "--count",
            "2000",
        ],
    );
    drop(switch);
    let fields = [
        "frame.interface_name",
        "infiniband.bth.opcode",
        "_ws.malformed",
        "frame.len",
    ];
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(&path).args(["-T", "fields"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 2000);
    let mut by_interface = BTreeMap::new();
    for (line, packet) in lines.iter().zip(&capture.packets) {
        let [interface, opcode, malformed, len] = line[..] else {
            panic!("{line:?}");
        };
        assert_eq!(interface, packet.interface);
        assert!(!opcode.is_empty() && malformed.is_empty(), "{line:?}");
        assert_eq!(len.parse(), Ok(packet.wire_len));
        *by_interface.entry(interface).or_insert(0) += 1;
    }
    assert!(
        by_interface.len() >= 3,
        "the host port and uplinks: {by_interface:?}"
    );
}

/// Goal: a capture of nobody is told with the cure.
#[test]
fn nobody_to_capture_is_said() {
    let done = spraycheck(&["capture", "--out", "-", "--socket", "no/such.sock"]);
    assert_eq!(done.status, 3);
    assert!(done.stderr.contains("no/such.sock"), "{}", done.stderr);
}

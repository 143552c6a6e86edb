//! The control socket of a running testbed: lines of anybody who may open it. Each answer that is
//! whole is JSON, and the thread answers the next client.
#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use agent::control::{Control, ControlConfig, Shared};
use agent::core::Test;
use agent::subject::Subject;
use config::TestbedConfig;

/// Answers are waited for so long: a stream of verdicts never ends by itself.
const PATIENCE: Duration = Duration::from_millis(100);

/// The thread, and where it answers.
static SOCKET: LazyLock<PathBuf> = LazyLock::new(|| {
    let testbed = TestbedConfig::preset(config::Preset::Default);
    let fabric = config::Fabric::new(&testbed).expect("the defaults are right");
    let socket = std::env::temp_dir().join(format!("spraycheck-fuzz-{}.sock", std::process::id()));
    let switches = fabric.switches.iter();
    let named = |switch: &config::FabricSwitch| {
        let ports = (0..switch.config.ports.len()).map(|port| format!("port{port}"));
        (switch.name.clone(), ports.collect())
    };
    let config = ControlConfig {
        switches: switches.clone().map(named).collect(),
        rules: testbed.rules(),
        test: Test::Fixed,
        socket: Some(socket.clone()),
        versions: Vec::new(),
        subject: Subject::testbed(&testbed).expect("the defaults are right"),
    };
    let shared = Shared::new(switches.map(|switch| switch.config.ports.len()));
    // Until the process ends; a panic of the thread ends that.
    std::mem::forget(Control::start(config, shared, || ()).expect("a socket in a folder of ours"));
    socket
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut client = UnixStream::connect(&*SOCKET).expect("it answers");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // It may be cut off before all is written.
    let _ = client.write_all(data);
    let _ = client.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let ended = client.read_to_end(&mut answer);
    // A capture has packets between its lines, and there are none of them here.
    for line in answer.split_inclusive(|&byte| byte == b'\n') {
        let is_capture = answer.windows(9).any(|word| word == b"\"captured");
        if line.ends_with(b"\n") && !is_capture && ended.is_ok() {
            let answer: Result<serde_json::Value, _> = serde_json::from_slice(line);
            assert!(answer.is_ok(), "{}", String::from_utf8_lossy(line));
        }
    }
});

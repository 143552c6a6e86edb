//! Two processes of one file prefix: the second is refused and told who has it.
//!
//! The test runs itself again as the second process.

use std::env;
use std::process::Command;

use dpdk::{Eal, EalConfig, test_support};

const CHILD: &str = "INSTANCE_CHILD_PREFIX";

/// The refusal names the first process; when the second is gone the first still has its folder.
#[test]
fn second_process_is_refused() {
    if let Some(prefix) = env::var_os(CHILD) {
        let config = EalConfig {
            file_prefix: prefix.into_string().unwrap(),
            ..test_support::config()
        };
        println!("{}", Eal::init(config).unwrap_err());
        return;
    }
    let eal = test_support::eal();
    let lock = eal.runtime_dir().join("lock");
    assert!(lock.exists());
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "second_process_is_refused", "--nocapture"])
        .env(CHILD, eal.file_prefix())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let expected = format!(
        "another process (pid {}) runs with file prefix",
        std::process::id()
    );
    assert!(stdout.contains(&expected), "{stdout}");
    assert!(
        lock.exists(),
        "the second process removed the first one's lock"
    );
}

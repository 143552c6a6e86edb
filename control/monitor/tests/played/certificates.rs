//! Certificates of a test's own, made by `openssl`.

use std::path::Path;
use std::process::{Command, Stdio};

/// Makes `ca.pem`, and signed by it `server.pem` and `client.pem` with their keys (`.key`), for 127.0.0.1; false where
/// there is no `openssl`.
pub(crate) fn make(folder: &Path) -> bool {
    const NAMES: &str = "subjectAltName=IP:127.0.0.1,DNS:localhost";
    std::fs::write(folder.join("names"), NAMES).expect("a file");
    let openssl = |line: &str| {
        let status = Command::new("openssl")
            .args(line.split(' '))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {KEY} -keyout ca.key -out ca.pem -subj /CN=ca -days 2"))
        && ["server", "client"].into_iter().all(|name| {
            openssl(&format!("req {KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}"))
                && openssl(&format!(
                    "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
                ))
        })
}

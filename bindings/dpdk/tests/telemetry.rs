//! Our telemetry commands, asked over EAL's socket the way an operator's tool asks.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{io, mem};

use dpdk::telemetry::{Reply, Value, register};
use dpdk::test_support;

/// EAL's socket keeps message boundaries (SOCK_SEQPACKET), which std does not offer.
fn connect(path: &Path) -> io::Result<OwnedFd> {
    // SAFETY: creates a socket; no memory is involved.
    let raw = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` was just opened and is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: all zeroes is a valid, empty address.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).unwrap();
    for (place, byte) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *place = byte.cast_signed();
    }
    let size = libc::socklen_t::try_from(mem::size_of_val(&address)).unwrap();
    // SAFETY: `address` is a valid address of `size` bytes.
    let result = unsafe { libc::connect(raw, (&raw const address).cast(), size) };
    if result == 0 {
        Ok(socket)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn receive(socket: &OwnedFd) -> String {
    let mut buffer = vec![0_u8; 16384];
    let fd = socket.as_raw_fd();
    // SAFETY: `buffer` has that many bytes.
    let len = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    buffer.truncate(usize::try_from(len).unwrap());
    String::from_utf8(buffer).unwrap()
}

fn ask(socket: &OwnedFd, request: &str) -> String {
    // SAFETY: `request` has that many bytes.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            request.as_ptr().cast(),
            request.len(),
            0,
        )
    };
    assert_eq!(usize::try_from(sent).unwrap(), request.len());
    receive(socket)
}

/// Numbers, texts and parameters pass; bad replies and panics become error texts.
#[test]
fn commands_answer() {
    let eal = test_support::eal();
    let hits = |parameters: &str| {
        Reply::Dict(vec![
            ("hits".into(), u64::MAX.into()),
            ("asked".into(), parameters.into()),
        ])
    };
    register(eal, "/test/hits", "Hits. Parameters: any", hits).unwrap();
    register(eal, "/test/text", "Text", |_| Reply::Text("first".into())).unwrap();
    register(eal, "/test/text", "Text", |_| Reply::Text("second".into())).unwrap();
    register(eal, "/test/list", "Names", |_| {
        Reply::List(vec!["leaf0.up0".into(), "leaf0>spine1".into()])
    })
    .unwrap();
    register(eal, "/test/many", "Too many", |_| {
        Reply::List(vec![String::new(); 513])
    })
    .unwrap();
    register(eal, "/test/panic", "Panics", |_| panic!("on purpose")).unwrap();
    register(eal, "/test/long", "Too long", |_| {
        Reply::Dict(vec![("name".into(), Value::Text("x".repeat(500)))])
    })
    .unwrap();
    let refused = register(eal, "no_slash", "", |_| Reply::Text(String::new())).unwrap_err();
    assert!(refused.to_string().contains("`no_slash`"), "{refused}");

    let path = eal.runtime_dir().join("dpdk_telemetry.v2");
    let deadline = Instant::now() + Duration::from_secs(5);
    let socket = loop {
        match connect(&path) {
            Ok(socket) => break socket,
            Err(reason) => assert!(Instant::now() < deadline, "{}: {reason}", path.display()),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let greeting = receive(&socket);
    assert!(greeting.contains("\"version\""), "{greeting}");

    let reply = ask(&socket, "/test/hits,spine 3");
    let expected = r#"{"hits":18446744073709551615,"asked":"spine 3"}"#;
    assert_eq!(
        without_spaces(&reply),
        without_spaces(&format!("{{\"/test/hits\":{expected}}}"))
    );
    let reply = ask(&socket, "/test/text");
    assert!(reply.contains("second"), "{reply}");
    let reply = ask(&socket, "/test/list");
    assert_eq!(
        without_spaces(&reply),
        r#"{"/test/list":["leaf0.up0","leaf0>spine1"]}"#
    );
    let reply = ask(&socket, "/test/many");
    assert!(reply.contains("reply is not valid"), "{reply}");
    let reply = ask(&socket, "/test/panic");
    assert!(reply.contains("panicked"), "{reply}");
    let reply = ask(&socket, "/test/long");
    assert!(reply.contains("reply is not valid: name"), "{reply}");
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

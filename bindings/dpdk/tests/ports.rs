//! Ports over virtual devices, with real bytes. No root, no NIC, no hugepages.

use std::path::Path;
use std::time::{Duration, Instant};

use dpdk::{Burst, Mempool, Port, PortConfig, Started, test_support};

/// A pool for ordinary frames.
fn pool(name: &str) -> Mempool {
    test_support::pool(name, 255, 2048)
}

fn start(device: &str, pool: &Mempool) -> Started {
    let eal = test_support::eal();
    eal.attach_vdev(device).unwrap();
    let name = device.split(',').next().unwrap();
    let port = Port::by_name(eal, name).unwrap();
    port.start(PortConfig::new(pool.clone())).unwrap()
}

/// A frame of 60 bytes that shows its number.
fn frame(number: u8) -> Vec<u8> {
    let mut bytes = vec![number; 60];
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes
}

/// A capture file: header, then each frame with its own (magic 0xa1b2c3d4, Ethernet).
fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    for frame in frames {
        let len = u32::try_from(frame.len()).unwrap();
        for word in [0, 0, len, len] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}

fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_at_checked(16) {
        let len = u32::from_ne_bytes(header[8..12].try_into().unwrap()) as usize;
        let (frame, after) = after.split_at(len);
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

/// net_null gives 64 frames per burst and takes as many; counters agree; all buffers come back.
#[test]
fn null_counts_and_returns_everything() {
    let pool = pool("ports_null");
    let Started {
        port,
        mut rx,
        mut tx,
        warnings,
    } = start("net_null_count,size=64", &pool);
    assert_eq!(warnings, Vec::<String>::new());
    let mut burst = Burst::new();
    for _ in 0..10 {
        assert_eq!(rx[0].receive(&mut burst), 64);
        assert!(
            burst
                .iter()
                .all(|mbuf| mbuf.len() == 64 && mbuf.is_single_segment())
        );
        assert_eq!(rx[0].receive(&mut burst), 0, "a full burst takes no more");
        assert_eq!(tx[0].send(&mut burst), 64);
        assert!(burst.is_empty());
    }
    tx[0].reap();
    let stats = port.stats().unwrap();
    assert_eq!(
        (stats.rx_packets, stats.tx_packets, stats.tx_errors),
        (640, 640, 0)
    );
    let xstats = port.xstats().unwrap();
    assert!(
        xstats.contains(&("rx_good_packets".to_owned(), 640)),
        "{xstats:?}"
    );
    assert!(port.link().unwrap().up);
    assert_eq!(port.mtu().unwrap(), 1500);
    assert_ne!(port.mac().unwrap(), [0; 6]);

    drop((port, rx, tx));
    assert_eq!(pool.in_use(), 0);
}

/// An empty pool makes reception stop, not fail, and it goes on when buffers are back.
#[test]
fn null_with_an_empty_pool() {
    let pool = test_support::pool("ports_empty", 100, 2048);
    let mut started = start("net_null_empty,size=64", &pool);
    let (mut first, mut second) = (Burst::new(), Burst::new());
    assert_eq!(started.rx[0].receive(&mut first), 64);
    assert_eq!(started.rx[0].receive(&mut second), 0);
    first.clear();
    assert_eq!(started.rx[0].receive(&mut second), 64);
}

/// net_ring returns what is sent, in order; what does not fit stays in the burst; the port's
/// end frees what is still inside.
#[test]
fn ring_loop_keeps_bytes_and_order() {
    let pool = pool("ports_ring");
    let mut started = start("net_ring_loop", &pool);
    let mut burst = Burst::new();
    for number in 0..50 {
        let mut mbuf = pool.alloc().unwrap();
        mbuf.write(&frame(number)).unwrap();
        burst.push(mbuf).unwrap();
    }
    assert_eq!(started.tx[0].send(&mut burst), 50);
    assert_eq!(started.rx[0].receive(&mut burst), 50);
    for (number, mbuf) in (0..).zip(burst.iter()) {
        assert_eq!(mbuf.data(), frame(number));
    }
}

/// A link goes down and up where the driver can, and its state is told; where it cannot, the error
/// says so, and the link stays as it was.
#[test]
fn a_link_is_taken_down_where_the_driver_can() {
    let pool = pool("ports_link");
    let ring = start("net_ring_link", &pool).port;
    assert!(ring.link().unwrap().up);
    ring.set_link(false).unwrap();
    assert!(!ring.link().unwrap().up);
    ring.set_link(true).unwrap();
    assert!(ring.link().unwrap().up);
    // As net_af_packet, whose interface is the kernel's.
    let null = start("net_null_link", &pool).port;
    let error = null.set_link(false).unwrap_err().to_string();
    assert!(error.contains("not every driver can"), "{error}");
    assert!(null.link().unwrap().up);
}

/// Frames of a capture file come out of net_pcap, and what is sent is in the other file.
#[test]
fn pcap_in_and_out() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (
        folder.path().join("in.pcap"),
        folder.path().join("out.pcap"),
    );
    let frames: Vec<Vec<u8>> = (0..20).map(frame).collect();
    write_pcap(&input, &frames);
    let pool = pool("ports_pcap");
    let device = format!(
        "net_pcap_files,rx_pcap={},tx_pcap={}",
        input.display(),
        output.display()
    );
    let Started {
        port,
        mut rx,
        mut tx,
        ..
    } = start(&device, &pool);

    let mut burst = Burst::new();
    let deadline = Instant::now() + Duration::from_secs(5);
    while burst.len() < 20 && Instant::now() < deadline {
        rx[0].receive(&mut burst);
    }
    let received: Vec<Vec<u8>> = burst.iter().map(|mbuf| mbuf.data().to_vec()).collect();
    assert_eq!(received, frames);
    for mbuf in burst.iter_mut() {
        mbuf.data_mut()[0] = 0xee;
    }
    assert_eq!(tx[0].send(&mut burst), 20);
    drop((port, rx, tx));

    let mut expected = frames;
    for bytes in &mut expected {
        bytes[0] = 0xee;
    }
    assert_eq!(read_pcap(&output), expected);
    assert_eq!(pool.in_use(), 0);
}

/// More queues than the device has: as many as it has, and a warning that says so.
#[test]
fn queues_are_clamped_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    write_pcap(&input, &[frame(1)]);
    let eal = test_support::eal();
    eal.attach_vdev(&format!("net_pcap_clamp,rx_pcap={}", input.display()))
        .unwrap();
    let port = Port::by_name(eal, "net_pcap_clamp").unwrap();
    assert_eq!(port.capabilities().unwrap().driver, "net_pcap");
    let config = PortConfig {
        rx_queues: 3,
        ..PortConfig::new(pool("ports_clamp"))
    };
    let started = port.start(config).unwrap();
    assert_eq!(started.rx.len(), 1);
    let warnings = started.warnings.join("\n");
    assert!(
        warnings.contains("asked for 3 receive queues, the device gives 1"),
        "{warnings}"
    );
}

/// A frame that the pool's buffers cannot hold is refused with both numbers.
#[test]
fn mtu_must_fit_the_pool() {
    let eal = test_support::eal();
    for (number, mtu) in [(0, Some(4200)), (1, None)] {
        let name = format!("net_null_mtu{number}");
        eal.attach_vdev(&name).unwrap();
        let room = if mtu.is_some() { 2048 } else { 1024 };
        let config = PortConfig {
            mtu,
            ..PortConfig::new(test_support::pool(&name, 15, room))
        };
        let refused = Port::by_name(eal, &name)
            .unwrap()
            .start(config)
            .unwrap_err()
            .to_string();
        let needed = u32::from(mtu.unwrap_or(1500)) + 26;
        assert!(
            refused.contains(&format!("take up to {needed} bytes")),
            "{refused}"
        );
        assert!(refused.contains(&format!("hold {room}")), "{refused}");
    }
}

/// A port is taken once; letting it go unstarted leaves it to the next.
#[test]
fn taken_once() {
    let eal = test_support::eal();
    eal.attach_vdev("net_null_taken").unwrap();
    let port = Port::by_name(eal, "net_null_taken").unwrap();
    let refused = Port::by_name(eal, "net_null_taken")
        .unwrap_err()
        .to_string();
    assert!(refused.contains("already taken"), "{refused}");
    drop(port);
    let port = Port::by_name(eal, "net_null_taken").unwrap();
    assert!(Port::names(eal).contains(&port.name().to_owned()));

    let missing = Port::by_name(eal, "net_null_absent")
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("net_null_absent") && missing.contains("net_null_taken"),
        "{missing}"
    );
}

/// A device that cannot come up is an error that names it.
#[test]
fn attach_failures_name_the_device() {
    let eal = test_support::eal();
    for device in [
        "net_pcap_absent,rx_pcap=/nonexistent/in.pcap",
        "net_null_bad,no_such_argument=1",
        "no_such_driver0",
    ] {
        let refused = eal.attach_vdev(device).unwrap_err().to_string();
        assert!(refused.contains(device), "{refused}");
    }
}

//! Start, use and clean-up of EAL in one process, with things dropped in the worst order.
//!
//! A test binary of its own, because EAL starts once per process.

use dpdk::{Burst, Eal, EalConfig, Error, Mempool, Port, PortConfig, lcore, ring, test_support};

/// Clean-up refuses while things are alive, then happens when the last of them goes, although
/// the pool's and EAL's handles go first and packets are still out, in a burst and in a ring.
#[test]
fn drops_in_any_order() {
    let config = EalConfig {
        vdevs: vec!["net_ring0".into()],
        ..test_support::config()
    };
    let eal = Eal::init(config).unwrap();
    assert!(eal.runtime_dir().is_dir());
    let pool = Mempool::create(&eal, "pool", 127, 16, 2048, None).unwrap();
    let mut started = Port::by_name(&eal, "net_ring0")
        .unwrap()
        .start(PortConfig::new(pool.clone()))
        .unwrap();
    let (mut sender, receiver) = ring(&eal, "link", 16, None).unwrap();

    let mut tx = started.tx.remove(0);
    let source = pool.clone();
    let worker = lcore::launch(&eal, 1, move || {
        let mut burst = Burst::new();
        assert!(source.alloc_burst(&mut burst, 10));
        assert_eq!(tx.send(&mut burst), 10);
        assert!(source.alloc_burst(&mut burst, 5));
        assert_eq!(sender.send_burst(&mut burst), 5);
    })
    .unwrap();

    let refused = eal.cleanup().unwrap_err();
    assert!(
        matches!(refused, Error::StillInUse { holders } if holders >= 4),
        "{refused}"
    );
    worker.join();
    assert_eq!(pool.in_use(), 15);
    let mut burst = Burst::new();
    assert_eq!(started.rx[0].receive(&mut burst), 10);
    drop(pool);
    drop(burst);
    // Five packets are in the ring. Its end gives them back; the port has the pool's last handle.
    drop(receiver);
    let before = mapped_kib();
    drop(started);
    let after = mapped_kib();
    // Half of what EAL was given: whatever else the process maps meanwhile is less.
    assert!(
        after + 32 * 1024 < before,
        "clean-up unmaps EAL's memory: {before} KiB before, {after} KiB after"
    );
}

/// Address space of this process in KiB.
fn mapped_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.unwrap().parse().unwrap()
}

//! A whole forwarder: two ports, each packet leaves by the other one.
//!
//! Runs without root, NIC or hugepages, on devices that exist in software only:
//!
//! ```text
//! cargo run --release -p dpdk --example forward -- net_null0,size=64 net_null1,size=64 3
//! ```
//!
//! The last argument is for how many seconds.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, thread};

use dpdk::{
    Burst, Clock, Eal, EalConfig, Error, Mempool, Port, PortConfig, RxQueue, Started, TxQueue,
    lcore,
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("forward: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [left, right, seconds] = arguments.as_slice() else {
        return Err("usage: forward VDEV VDEV SECONDS".into());
    };
    let seconds: u64 = seconds.parse()?;

    // The main thread sleeps on CPU 0; the worker polls on CPU 1.
    let eal = Eal::init(EalConfig {
        program: "forward".into(),
        lcores: vec![(0, 0), (1, 1)],
        vdevs: vec![left.clone(), right.clone()],
        file_prefix: format!("forward-{}", std::process::id()),
        ..EalConfig::default()
    })?;
    let pool = Mempool::create(&eal, "packets", 16383, 256, 2048, None)?;
    let a = start(&eal, left, &pool)?;
    let b = start(&eal, right, &pool)?;

    let mut ways = Vec::new();
    ways.extend(a.rx.into_iter().zip(b.tx));
    ways.extend(b.rx.into_iter().zip(a.tx));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let clock = Clock::calibrated();
    let begin_ns = clock.now_ns();
    let worker = lcore::launch(&eal, 1, move || poll(ways, &stopped))?;
    thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    let lost = worker.join();
    let elapsed_ns = clock.now_ns() - begin_ns;

    let (a, b) = (a.port.stats()?, b.port.stats()?);
    let sent = a.tx_packets + b.tx_packets;
    println!(
        "received {}, sent {sent}, not taken {lost}: {:.1} Mpps",
        a.rx_packets + b.rx_packets,
        sent as f64 * 1e3 / elapsed_ns as f64
    );
    Ok(())
}

fn start(eal: &Eal, device: &str, pool: &Mempool) -> Result<Started, Error> {
    let name = device.split(',').next().unwrap_or(device);
    let started = Port::by_name(eal, name)?.start(PortConfig::new(pool.clone()))?;
    for warning in &started.warnings {
        eprintln!("{warning}");
    }
    Ok(started)
}

/// Moves packets until told to stop, and returns how many the devices did not take.
fn poll(mut ways: Vec<(RxQueue, TxQueue)>, stop: &AtomicBool) -> u64 {
    let mut burst = Burst::new();
    let mut lost = 0;
    while !stop.load(Ordering::Relaxed) {
        for (rx, tx) in &mut ways {
            if rx.receive(&mut burst) == 0 {
                continue;
            }
            tx.send(&mut burst);
            lost += burst.len() as u64;
            burst.clear();
        }
    }
    lost
}

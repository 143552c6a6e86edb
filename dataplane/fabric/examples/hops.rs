//! The simulator alone, for a profiler.
//!
//! `cargo build --release -p fabric --example hops`, then
//! `valgrind --tool=callgrind target/release/examples/hops 64 1000000`: so many leaves and spines,
//! so many hops.

use std::time::Instant;

use config::{Bytes, Dcqcn, SimConfig, SimLayer, TestbedLayer, Workload};
use fabric::Engine;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        let text = arguments.next();
        text.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (size, hops) = (number(64) as u16, number(10_000_000));
    let layer = SimLayer {
        fabric: TestbedLayer {
            leaves: Some(size),
            spines: Some(size),
            workload: Some(Workload::RingAllreduce),
            bytes: Some(Bytes::new(u64::from(size) << 26)),
            qps: Some(2),
            ecn: Some(true),
            dcqcn: Some(Dcqcn::Paper),
            ..TestbedLayer::default()
        },
        ..SimLayer::default()
    };
    let config = SimConfig::resolve(None, layer).expect("the settings are right");
    let mut engine = Engine::new(&config).expect("it can be built");
    engine.run_hops(hops / 10);
    let (begun, before) = (Instant::now(), engine.hops());
    engine.run_hops(hops);
    let seconds = begun.elapsed().as_secs_f64();
    let done = engine.hops() - before;
    println!(
        "{size}x{size}: {done} hops in {seconds:.2} s: {:.2} M hops/s; {:?}",
        done as f64 / seconds / 1e6,
        engine.status()
    );
}

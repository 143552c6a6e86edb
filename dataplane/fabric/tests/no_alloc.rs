//! A steady run allocates nothing: memory holds however long it goes on.

use config::{Bytes, SimConfig, TestbedConfig, Workload};
use fabric::Engine;

/// Goal: of 400,000 hops in the middle of long flows, none allocates.
#[test]
fn a_steady_run_allocates_nothing() {
    let base = TestbedConfig::resolve(None, SimConfig::base()).expect("the defaults are right");
    let config = SimConfig::of(TestbedConfig {
        leaves: 8,
        spines: 8,
        workload: Workload::Permutation,
        bytes: Bytes::new(1 << 30),
        ..base
    });
    let mut engine = Engine::new(&config).expect("it can be built");
    assert!(engine.run_hops(400_000));
    let mut went_on = false;
    let info = allocation_counter::measure(|| went_on = engine.run_hops(400_000));
    assert!(went_on);
    assert_eq!(info.count_total, 0, "{info:?}");
}

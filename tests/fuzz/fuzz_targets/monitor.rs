//! Lines that a switch sends to the monitor: refused, or taken without a panic; what is taken reads the
//! same when it is written again.
#![no_main]

use agent::verdict::WindowVerdict;
use detector::{Fabric, Nanos};
use monitor::core::{Core, Rules, check};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let fabric = Fabric {
        leaves: 4,
        spines: 4,
    };
    let mut core = Core::new(Rules::new(fabric));
    let mut now = Nanos(1_800_000_000_000_000_000);
    for line in data.split(|&byte| byte == b'\n') {
        let Ok(verdict) = serde_json::from_slice::<WindowVerdict>(line) else {
            continue;
        };
        let text = serde_json::to_string(&verdict).expect("it is JSON");
        if check(fabric, &verdict).is_err() {
            continue;
        }
        assert_eq!(
            serde_json::from_str::<WindowVerdict>(&text).ok(),
            Some(verdict.clone()),
            "{text}"
        );
        core.take(verdict, now);
        now.0 += 1_100_000_000;
        core.evaluate(now, usize::MAX);
    }
    for row in core.rows(now) {
        assert!(row.drop_rate.is_finite(), "{row:?}");
        let series = core.series(row.link);
        assert!(series.is_ok(), "{:?}", row.link);
    }
});

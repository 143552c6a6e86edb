//! The reaction point by hand-worked numbers.

use super::*;

const GBPS: u64 = 1_000_000_000;

fn paper() -> Dcqcn {
    Dcqcn::new(DcqcnConfig::PAPER, BitRate::gbps(100))
}

/// Goal: the first notification halves the rate (alpha is 1), the next within the gap does nothing.
#[test]
fn a_cut_is_half_of_alpha() {
    let mut dcqcn = paper();
    assert!(dcqcn.notified(1_000_000));
    assert_eq!((dcqcn.rate, dcqcn.target), (50 * GBPS, 100 * GBPS));
    assert!(!dcqcn.notified(1_049_999));
    assert_eq!(dcqcn.rate, 50 * GBPS);
    // Alpha stays 1: (1 - g) + g.
    assert!(dcqcn.notified(1_050_000));
    assert_eq!((dcqcn.rate, dcqcn.target), (25 * GBPS, 50 * GBPS));
}

/// Goal: without notifications alpha decays by 1 - g each 55 us, however late one looks.
#[test]
fn alpha_decays_with_time() {
    let mut often = paper();
    let mut once = paper();
    for dcqcn in [&mut often, &mut once] {
        dcqcn.notified(0);
    }
    for step in 1..=1000 {
        often.decay_alpha(step * 55_000);
    }
    once.decay_alpha(1000 * 55_000 + 54_999);
    let wanted = (1.0 - 1.0 / 256.0f64).powi(1000) * ONE as f64;
    for alpha in [often.alpha, once.alpha] {
        let error = (alpha as f64 - wanted).abs() / wanted;
        assert!(error < 1e-3, "{alpha} of {ONE}, wanted {wanted}");
    }
}

/// Goal: five steps of fast recovery halve the distance to the old rate; then it is exceeded by
/// R_AI each time, and by R_HAI once the byte counter is beyond F as well.
#[test]
fn the_rate_comes_back_in_stages() {
    let mut dcqcn = paper();
    dcqcn.notified(0);
    dcqcn.notified(50_000);
    let begun = 50_000;
    for step in 1..=5u64 {
        dcqcn.pass(begun + step * 55_000);
        let wanted = 50 * GBPS - ((25 * GBPS) >> step);
        assert_eq!(
            (dcqcn.rate, dcqcn.target),
            (wanted, 50 * GBPS),
            "step {step}"
        );
    }
    dcqcn.pass(begun + 6 * 55_000);
    assert_eq!(dcqcn.target, 50 * GBPS + 40_000_000);
    for _ in 0..6 {
        dcqcn.sent(begun + 6 * 55_000, 10_000_000);
    }
    // Five more by the byte counter while it is not beyond F, the sixth is hyper.
    assert_eq!(dcqcn.target, 50 * GBPS + 6 * 40_000_000 + 200_000_000);
    // And in the end the link's rate, at which nothing is limited any more.
    dcqcn.pass(begun + 100_000 * 55_000);
    assert_eq!(dcqcn.rate, 100 * GBPS);
}

/// Goal: notifications without end leave the least rate, for every preset.
#[test]
fn the_rate_has_a_floor() {
    for preset in [DcqcnPreset::Paper, DcqcnPreset::Hpcc, DcqcnPreset::Vendor] {
        let config = DcqcnConfig::preset(preset, 100 * GBPS);
        assert_eq!(RateControl::Dcqcn(config).check(), Ok(()));
        let mut dcqcn = Dcqcn::new(config, BitRate::gbps(100));
        for step in 0..20_000 {
            dcqcn.notified(step * config.cut_gap_ns);
        }
        assert_eq!(dcqcn.rate, config.rate_min_bps, "{preset:?}");
    }
}

/// Goal: a limiter spaces packets by its rate, and not at all at the link's.
#[test]
fn a_limiter_spaces_packets() {
    let fixed = RateControl::Fixed(BitRate::gbps(25));
    for (control, wanted) in [(RateControl::Off, 0), (fixed, 1_000_000)] {
        let mut limiter = Limiter::new(&control, BitRate::gbps(100), 0);
        let mut now = 0;
        for _ in 0..1000 {
            now = now.max(limiter.ready_ns());
            limiter.sent(now, 3125);
        }
        assert_eq!(limiter.ready_ns().max(now), wanted, "{control:?}");
    }
    let control = RateControl::Dcqcn(DcqcnConfig::PAPER);
    let mut limiter = Limiter::new(&control, BitRate::gbps(100), 0);
    limiter.sent(0, 3125);
    assert_eq!(limiter.ready_ns(), 0);
    assert!(limiter.notified(10) && !limiter.notified(20));
    limiter.sent(20, 3125);
    assert_eq!(limiter.ready_ns(), 520, "50 Gbit/s");
}

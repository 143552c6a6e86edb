//! Parameters of DCQCN, and three sets of them that are in use.
//!
//! Public sources disagree by factors of five to ten, mostly in how fast the rate comes back. So
//! each set is taken whole from one kind of source, named at the preset; a value that the source
//! does not have says where it is from.

/// Parameters of DCQCN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DcqcnConfig {
    /// g, the gain of alpha, in units of 1/1024.
    pub gain_per_1024: u64,
    /// Alpha before the first notification, in units of 1/1024.
    pub alpha_initial_per_1024: u64,
    /// How often alpha decays while no notification comes.
    pub alpha_timer_ns: u64,
    /// Least time between two cuts of the rate.
    pub cut_gap_ns: u64,
    /// How often the timer raises the rate.
    pub increase_timer_ns: u64,
    /// After how many bytes the byte counter raises the rate; 0: it does not.
    pub byte_counter: u64,
    /// F: steps of fast recovery before the rate goes beyond where it was cut.
    pub fast_recovery_stages: u32,
    /// R_AI: the step after that.
    pub additive_increase_bps: u64,
    /// R_HAI: the step once timer and byte counter are both beyond F.
    pub hyper_increase_bps: u64,
    /// The least rate.
    pub rate_min_bps: u64,
    /// Least time between two notifications of a receiver to one connection.
    pub cnp_interval_ns: u64,
}

/// A set of parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DcqcnPreset {
    /// Of the publication.
    Paper,
    /// Of the public HPCC simulator.
    Hpcc,
    /// Of an adapter's defaults.
    Vendor,
}

const MBPS: u64 = 1_000_000;

impl DcqcnConfig {
    /// The parameters of a preset, on a link of so many bits per second.
    pub const fn preset(preset: DcqcnPreset, link_bps: u64) -> DcqcnConfig {
        match preset {
            DcqcnPreset::Paper => DcqcnConfig::PAPER,
            DcqcnPreset::Hpcc => DcqcnConfig::hpcc(link_bps),
            DcqcnPreset::Vendor => DcqcnConfig::VENDOR,
        }
    }

    /// The publication's (Zhu et al., SIGCOMM 2015, figure 14): g 1/256, alpha and increase timers
    /// and F as there, byte counter 10 MB, R_AI 40 Mbit/s, a CNP each 50 us and so a cut each
    /// 50 us. The publication names no R_HAI and no least rate; 200 and 100 Mbit/s are those of
    /// the public simulators (HPCC's at 100 Gbit/s, ConWeave's).
    pub const PAPER: DcqcnConfig = DcqcnConfig {
        gain_per_1024: 4,
        alpha_initial_per_1024: 1024,
        alpha_timer_ns: 55_000,
        cut_gap_ns: 50_000,
        increase_timer_ns: 55_000,
        byte_counter: 10_000_000,
        fast_recovery_stages: 5,
        additive_increase_bps: 40 * MBPS,
        hyper_increase_bps: 200 * MBPS,
        rate_min_bps: 100 * MBPS,
        cnp_interval_ns: 50_000,
    };

    /// The HPCC simulator's DCQCN (github.com/alibaba-edu/High-Precision-Congestion-Control,
    /// commit 9f4be2a): alpha each 1 us, a cut each 4 us at most, 300 us of increase timer, no
    /// byte counter, F 1, R_AI of 5 and R_HAI of 50 Mbit/s per 25 Gbit/s of link, 1 Gbit/s at
    /// least on 100 Gbit/s. Its receivers echo each mark in an acknowledgement; the nearest that
    /// CNPs come to that is one per cut, each 4 us (as in ConWeave's simulator, commit 236a801).
    pub const fn hpcc(link_bps: u64) -> DcqcnConfig {
        DcqcnConfig {
            gain_per_1024: 4,
            alpha_initial_per_1024: 1024,
            alpha_timer_ns: 1_000,
            cut_gap_ns: 4_000,
            increase_timer_ns: 300_000,
            byte_counter: 0,
            fast_recovery_stages: 1,
            additive_increase_bps: link_bps / 5_000,
            hyper_increase_bps: link_bps / 500,
            rate_min_bps: link_bps / 100,
            cnp_interval_ns: 4_000,
        }
    }

    /// An adapter's defaults (a public firmware dump and the vendor's parameter page): g
    /// 5/1024 (1019/1024 kept), alpha 1023/1024 at first and each 1 us, 4 us between cuts of at
    /// most half, increase timer 300 us, F 1, R_AI 5 and R_HAI 50 Mbit/s, 1 Mbit/s at least, a CNP
    /// each 4 us. Its byte counter is 32767 in an unnamed unit; taken as 64-byte blocks it is the
    /// 2 MB that a tester's profile of the same adapter has, so 2,097,088 bytes here.
    pub const VENDOR: DcqcnConfig = DcqcnConfig {
        gain_per_1024: 5,
        alpha_initial_per_1024: 1023,
        alpha_timer_ns: 1_000,
        cut_gap_ns: 4_000,
        increase_timer_ns: 300_000,
        byte_counter: 32_767 * 64,
        fast_recovery_stages: 1,
        additive_increase_bps: 5 * MBPS,
        hyper_increase_bps: 50 * MBPS,
        rate_min_bps: MBPS,
        cnp_interval_ns: 4_000,
    };
}

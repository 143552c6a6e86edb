//! The short way of known flows against the whole way: switches of one configuration and seed get the
//! same packets, one in bursts, one each alone, and one forgets its flows before each packet. Whatever
//! leaves them, is dropped, reported or counted must be the same, packet for packet. So must it be where
//! a driver takes packets that are cut through.

mod traffic;

use pipeline::report::Command;
use pipeline::*;

use crate::hostile::with_attacker;
use crate::net::*;
use traffic::{Dice, Piece, Traffic};

const ROUNDS: u64 = 160;
const BURSTS: u64 = 400;

/// All that a switch gives its driver, in order.
#[derive(Default, PartialEq, Eq, Debug)]
struct Log {
    sent: Vec<(u16, Piece)>,
    discarded: Vec<(Piece, DropReason)>,
    consumed: Vec<Piece>,
    /// Reports, notices and what became of claims.
    said: Vec<String>,
}

/// A driver that runs out of memory and patience by count.
struct Driver {
    log: Log,
    calls: u64,
    /// The window's slot is shared with other instances.
    is_shared: bool,
    /// It takes what is cut through; so many packets were.
    cuts: bool,
    cut: u64,
}

impl Driver {
    /// True once in `every` calls.
    fn fails(&mut self, every: u64) -> bool {
        self.calls += 1;
        self.calls.is_multiple_of(every)
    }
}

impl Sink<Piece> for Driver {
    fn alloc(&mut self, len: usize) -> Option<Piece> {
        (!self.fails(50)).then(|| Piece::whole(vec![0; len]))
    }
    fn discard(&mut self, token: Piece, reason: DropReason) {
        self.log.discarded.push((token, reason));
    }
    fn consume(&mut self, token: Piece) {
        self.log.consumed.push(token);
    }
    const CUTS_THROUGH: bool = true;
    fn cut_through(&mut self, port: PortId, token: Piece) -> Result<(), Piece> {
        if !self.cuts {
            return Err(token);
        }
        self.cut += 1;
        self.log.sent.push((port.0, token));
        Ok(())
    }
    fn report(&mut self, report: Report<'_>) -> bool {
        self.log.said.push(match report {
            Report::Opened(opened) => format!("{opened:?}"),
            Report::Window(window) => format!("{window:?}"),
            Report::Dropped(dropped) => format!("{dropped:?}"),
        });
        !self.fails(20)
    }
    fn claim_window(&mut self) -> Claim {
        if !self.is_shared {
            return Claim::Own;
        }
        if self.fails(3) {
            return Claim::Taken;
        }
        let epoch = (self.calls / 2) as u32;
        Claim::Granted { epoch }
    }
    fn release_window(&mut self, epoch: u32) {
        self.log.said.push(format!("released {epoch}"));
    }
    fn notice(&mut self, notice: Notice) {
        self.log.said.push(format!("{notice:?}"));
    }
}

struct Side {
    switch: Switch<Piece>,
    driver: Driver,
}

/// The switches, and where they are.
struct Pair {
    short: Side,
    /// What goes the short way packet by packet.
    alone: Side,
    whole: Side,
    now: Nanos,
    about: String,
}

impl Pair {
    fn new(config: &SwitchConfig, is_shared: bool, about: String) -> Pair {
        let side = || Side {
            switch: Switch::new(config),
            driver: Driver {
                log: Log::default(),
                calls: 0,
                is_shared,
                cuts: false,
                cut: 0,
            },
        };
        Pair {
            short: side(),
            alone: side(),
            whole: side(),
            now: Nanos(1),
            about,
        }
    }

    fn burst(&mut self, port: PortId, burst: &[Piece]) {
        let Side { switch, driver } = &mut self.short;
        switch.ingress_burst(self.now, port, burst.iter().cloned(), driver);
        for piece in burst {
            self.alone(port, piece);
            let Side { switch, driver } = &mut self.whole;
            switch.forget_flows();
            switch.ingress(self.now, port, piece.clone(), driver);
        }
    }

    fn alone(&mut self, port: PortId, piece: &Piece) {
        let Side { switch, driver } = &mut self.alone;
        switch.ingress(self.now, port, piece.clone(), driver);
    }

    fn all(&mut self, change: impl Fn(Nanos, &mut Switch<Piece>, &mut Driver)) {
        for Side { switch, driver } in [&mut self.short, &mut self.alone, &mut self.whole] {
            change(self.now, switch, driver);
        }
    }

    fn egress(&mut self, port: u16, room: usize) {
        self.all(|now, switch, driver| {
            let mut sent = Vec::new();
            switch.egress_burst(now, PortId(port), room, &mut sent);
            driver
                .log
                .sent
                .extend(sent.into_iter().map(|piece| (port, piece)));
        });
    }

    /// Compares everything; what was logged is forgotten. How many packets were sent.
    fn compare(&mut self, step: u64) -> u64 {
        let about = format!("{} step {step}", self.about);
        compare(&self.short, &self.whole, &about);
        compare(&self.alone, &self.whole, &format!("{about}, each alone"));
        let sent = self.short.driver.log.sent.len();
        for side in [&mut self.short, &mut self.alone, &mut self.whole] {
            side.driver.log = Log::default();
        }
        sent as u64
    }
}

/// Two sides that must have done the same.
fn compare(one: &Side, other: &Side, about: &str) {
    let sent = one.driver.log.sent.iter().zip(&other.driver.log.sent);
    for (at, (a, b)) in sent.enumerate() {
        assert_eq!(a, b, "{about}: packet {at} that was sent");
    }
    assert_eq!(one.driver.log, other.driver.log, "{about}");
    let (a, b) = (one.switch.counters(), other.switch.counters());
    for note in Note::ALL {
        let of = |c: &Counters| c.noted(*note);
        assert_eq!(of(a), of(b), "{about}: {}", note.name());
    }
    for reason in DropReason::ALL {
        let of = |c: &Counters| c.dropped(*reason);
        assert_eq!(of(a), of(b), "{about}: {}", reason.name());
    }
    assert_eq!(a, b, "{about}");
    for port in (0..one.switch.ports_len() as u16).map(PortId) {
        let of = |s: &Switch<Piece>| {
            let depths = [0, 3, 7].map(|priority| s.depth_bytes(port, priority));
            let mut counters = s.port_counters(port);
            if one.driver.cuts {
                // What is cut through does not stand before what the switch sends behind it.
                counters.backlog_bytes_max = 0;
            }
            (counters, depths, s.next_departure(port))
        };
        assert_eq!(of(&one.switch), of(&other.switch), "{about}: {port:?}");
    }
    assert_eq!(one.switch.failed_paths(), other.switch.failed_paths());
    assert_eq!(one.driver.calls, other.driver.calls, "{about}");
    assert!(one.switch.is_conserved(), "{about}");
}

/// A leaf with two host ports, or a spine; everything that can be configured is drawn.
fn drawn(dice: &mut Dice) -> SwitchConfig {
    let index = [0, LEAVES][usize::from(dice.one_in(3))];
    let mut m = measurement(dice.one_in(3));
    m.mark = [Mark::First, Mark::All][dice.pick(2)];
    m.window_packets_max = [30, 300, 1 << 20][dice.pick(3)];
    m.window_ns_max = [300_000, 10_000_000][dice.pick(2)];
    m.idle_ns_max = [40_000, 1_000_000][dice.pick(2)];
    m.path_delay_ns_max = [1_000, 20_000][dice.pick(2)];
    m.rows_max = [2, 64][dice.pick(2)];
    m.row_ns_max = 1_000_000;
    m.windows = WindowPlan {
        is_off: false,
        spine_packets: [0, 7, 40][dice.pick(3)],
        finds_flows: dice.one_in(2),
        silence_ns: 400_000,
        is_narrow: dice.one_in(4),
    };
    let mut config = config(index, &m);
    with_attacker(&mut config);
    let policies = [
        Policy::Jsq2,
        Policy::Jsq,
        Policy::Random,
        Policy::RoundRobin,
        Policy::Ecmp,
    ];
    config.policy = policies[dice.pick(5)];
    config.tie = [Tie::Random, Tie::FewestMeasured][dice.pick(2)];
    config.link_state_ns = [None, Some(500_000)][dice.pick(2)];
    config.hold_down_ns = [0, 50_000][dice.pick(2)];
    config.queue.limit_bytes = [3_000, 20_000, 1 << 20][dice.pick(3)];
    config.queue.packets_max = [60, 8192][dice.pick(2)];
    config.queue.pcp_priority = [None, Some([0, 1, 2, 3, 4, 5, 6, 6])][dice.pick(2)];
    if dice.one_in(2) {
        let ecn = EcnConfig {
            kmin_bytes: 500,
            kmax_bytes: 6_000,
            pmax_ppm: 400_000,
            at_rate_bps: None,
        };
        config.queue.ecn = [Some(ecn); 8];
    }
    for port in &mut config.ports {
        port.accept_any_mac = dice.one_in(8);
        port.frame_max_bytes = [4400, 700][usize::from(dice.one_in(8))];
    }
    config.seed = dice.next();
    config
}

/// What happens to a switch beside its packets.
fn disturb(pair: &mut Pair, dice: &mut Dice, ports: u16) {
    let port = PortId(dice.pick(usize::from(ports)) as u16);
    match dice.below(12) {
        0 => {
            // Up more often than down, or nothing would pass.
            let up = !dice.one_in(3);
            pair.all(|now, switch, driver| switch.set_link(now, port, up, driver));
        }
        1 => {
            let enabled = !dice.one_in(3);
            let command = Command::SetEnabled { port, enabled };
            pair.all(|now, switch, driver| switch.apply(now, command, driver));
        }
        2 if dice.one_in(4) => {
            pair.all(|now, switch, driver| switch.apply(now, Command::ResetMasks, driver));
        }
        3 => {
            let command = Command::Threshold {
                row: dice.below(3) as u32,
                generation: dice.below(6) as u32,
                epoch: dice.below(9) as u32,
                threshold: dice.below(30) as u32,
            };
            pair.all(|now, switch, driver| switch.apply(now, command, driver));
        }
        4 if dice.one_in(4) => {
            let is_choked = dice.one_in(3);
            pair.all(|_, switch, _| switch.set_choked(port, is_choked));
        }
        _ => {}
    }
}

/// Goal: the short way is the whole way, for leaves and spines of all kinds, whatever comes.
#[test]
fn the_short_way_equals_the_whole_way() {
    let mut all = Counters::default();
    let (mut packets, mut sent, mut longest) = (0, 0, 0);
    for round in 0..ROUNDS {
        let mut dice = Dice::new(round);
        let config = drawn(&mut dice);
        let about = format!("round {round}, {:?} {:?}", config.role, config.policy);
        let is_shared = dice.one_in(4);
        let mut pair = Pair::new(&config, is_shared, about);
        let mut traffic = Traffic::new(&config, &mut dice);
        let ports = config.ports.len() as u16;
        for step in 0..BURSTS {
            let port = dice.pick(usize::from(ports)) as u16;
            let burst = traffic.burst(&config, port, &mut dice);
            pair.burst(PortId(port), &burst);
            packets += burst.len() as u64;
            longest = longest.max(burst.len());
            disturb(&mut pair, &mut dice, ports);
            if !dice.one_in(3) {
                pair.now = pair.now.plus(dice.below(15_000));
                pair.all(|now, switch, driver| switch.tick(now, driver));
            }
            for port in 0..ports {
                if dice.one_in(2) {
                    pair.egress(port, 1 + dice.pick(64));
                }
            }
            sent += pair.compare(step);
        }
        all.add(pair.short.switch.counters());
    }
    println!("{ROUNDS} rounds: {packets} packets in bursts of up to {longest}, {sent} sent");
    let seen = |(name, count): (&str, u64)| (count > 0).then(|| format!("{count} {name}"));
    let notes = Note::ALL.iter().map(|note| (note.name(), all.noted(*note)));
    let drops = DropReason::ALL.iter().map(|r| (r.name(), all.dropped(*r)));
    let seen: Vec<_> = notes.chain(drops).filter_map(seen).collect();
    println!("seen: {}", seen.join(", "));
    // What the two ways must agree on has happened often.
    for (note, least) in [
        (Note::Marked, 5_000),
        (Note::Counted, 5_000),
        (Note::LaterCopies, 100),
        (Note::PsnOutside, 100),
        (Note::MarksCleared, 100),
        (Note::WindowsClosed, 100),
        (Note::WindowsReported, 100),
        (Note::FlowsFound, 100),
        (Note::EcnMarked, 100),
        (Note::ReservedOpcode, 100),
        (Note::Fragments, 100),
        (Note::FlowTableFull, 100),
    ] {
        let seen = all.noted(note);
        assert!(seen >= least, "{seen} {}", note.name());
    }
    for reason in [
        DropReason::TailDrop,
        DropReason::TtlExpired,
        DropReason::LinkDown,
        DropReason::QueueMemory,
        DropReason::UnresolvedNeighbor,
        DropReason::NoUplink,
        DropReason::Oversize,
    ] {
        let seen = all.dropped(reason);
        assert!(seen >= 100, "{seen} {}", reason.name());
    }
}

/// Goal: a packet that is cut through leaves when, where and as it does from a queue that is asked after
/// each packet, and is counted alike.
#[test]
fn what_is_cut_through_leaves_as_from_a_queue() {
    let (mut cut, mut sent) = (0, 0);
    for round in 0..ROUNDS / 2 {
        let mut dice = Dice::new(1_000 + round);
        let config = drawn(&mut dice);
        let about = format!("round {round}, {:?} {:?}", config.role, config.policy);
        let mut pair = Pair::new(&config, dice.one_in(4), about);
        pair.short.driver.cuts = true;
        let mut traffic = Traffic::new(&config, &mut dice);
        let ports = config.ports.len() as u16;
        for step in 0..BURSTS {
            let port = PortId(dice.pick(usize::from(ports)) as u16);
            for piece in traffic.burst(&config, port.0, &mut dice) {
                let Side { switch, driver } = &mut pair.short;
                switch.ingress(pair.now, port, piece.clone(), driver);
                pair.alone(port, &piece);
                (0..ports).for_each(|port| pair.egress(port, usize::MAX));
                pair.now = pair.now.plus(dice.below(2_000));
                (0..ports).for_each(|port| pair.egress(port, usize::MAX));
            }
            disturb(&mut pair, &mut dice, ports);
            pair.all(|now, switch, driver| switch.tick(now, driver));
            (0..ports).for_each(|port| pair.egress(port, usize::MAX));
            // What leaves one port leaves in order; a packet of another may be told before it.
            for side in [&mut pair.short, &mut pair.alone] {
                side.driver.log.sent.sort_by_key(|(port, _)| *port);
            }
            let about = format!("{} step {step}", pair.about);
            compare(&pair.short, &pair.alone, &about);
            sent += pair.short.driver.log.sent.len() as u64;
            for side in [&mut pair.short, &mut pair.alone] {
                side.driver.log = Log::default();
            }
        }
        cut += pair.short.driver.cut;
    }
    println!("{cut} of {sent} packets were cut through");
    assert!(4 * cut > sent, "{cut} of {sent} packets were cut through");
}

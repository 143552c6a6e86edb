//! Random fabrics: links with delays of their own that lose, repeat and flap, and hosts that
//! resend, skip, stop, lie and withdraw. Whatever happens, a path that a report does not call
//! disturbed has lost exactly what its two links lost.

use std::collections::{HashMap, VecDeque};

use packet::message::{FLAG_FIRST_UNKNOWN, Message, MessageKind};
use packet::{Opcode, ROCE_PORT, be, bth, message};
use pipeline::*;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::net::*;

/// Longest delay of a path; links take a quarter of it at most.
const DELAY_NS: u64 = 200_000;
const RUNS: u64 = 60;

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count
    }
    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// What one link did to the marked packets of one window: lost, and delivered twice.
#[derive(Clone, Copy, Default)]
struct Fate {
    lost: i64,
    repeated: i64,
}

/// The truth of one window.
#[derive(Clone, Default)]
struct Truth {
    sent: [i64; SPINES as usize],
    up: [Fate; SPINES as usize],
    down: [Fate; SPINES as usize],
    reports: u32,
}

impl Truth {
    fn arrived(&self) -> i64 {
        let lost = |fates: &[Fate]| fates.iter().map(|fate| fate.lost).sum::<i64>();
        self.sent.iter().sum::<i64>() - lost(&self.up) - lost(&self.down)
    }
}

/// One direction of a cable.
struct Wire {
    from: usize,
    port: u16,
    to: usize,
    in_port: u16,
    delay_ns: u64,
    /// One packet in so many is lost (0: none); another one in so many comes twice.
    loses_one_in: u64,
    flying: VecDeque<(Nanos, Frame)>,
    is_cut: bool,
}

/// One connection of a host.
struct Flow {
    from: u16,
    to: u16,
    qpn: u32,
    next: u32,
    left: u32,
}

struct World {
    net: Net,
    wires: Vec<Wire>,
    dice: Dice,
    flows: Vec<Flow>,
    qpns: u32,
    /// Epoch whose open was the last on this uplink, by leaf and spine.
    open_on: HashMap<(usize, u16), u32>,
    /// In which window a packet was marked.
    window_of: HashMap<(usize, u32, u32), u32>,
    truth: HashMap<(usize, u32), Truth>,
    /// Cables that are down, and when they come back.
    down: Vec<(u16, u16, Nanos)>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(seed));
        let net = Net::new(
            |config| {
                config.seed ^= seed << 8;
                config.link_state_ns = Some(1_000_000);
                let m = &mut config.measurement;
                m.path_delay_ns_max = DELAY_NS;
                m.window_packets_max = 300;
                m.window_ns_max = 2_000_000;
                m.idle_ns_max = 250_000;
                m.row_ns_max = 3_000_000;
            },
            false,
        );
        let mut wires = Vec::new();
        for leaf in 0..LEAVES {
            for spine in 0..SPINES {
                let (down, up) = (usize::from(leaf), usize::from(LEAVES + spine));
                for (from, port, to, in_port) in
                    [(down, spine + 1, up, leaf), (up, leaf, down, spine + 1)]
                {
                    wires.push(Wire {
                        from,
                        port,
                        to,
                        in_port,
                        delay_ns: 1_000 + dice.below(DELAY_NS / 4),
                        loses_one_in: [0, 0, 20, 100][dice.below(4) as usize],
                        flying: VecDeque::new(),
                        is_cut: false,
                    });
                }
            }
        }
        World {
            net,
            wires,
            dice,
            flows: Vec::new(),
            qpns: 16,
            open_on: HashMap::new(),
            window_of: HashMap::new(),
            truth: HashMap::new(),
            down: Vec::new(),
        }
    }

    /// Leaf, QP and PSN of a marked packet.
    fn marked(frame: &Frame) -> Option<(usize, u32, u32)> {
        let bytes = &frame.0;
        (be::get16(bytes, 36) == ROCE_PORT && bytes[42 + bth::RESV8A] & bth::MARK != 0).then(|| {
            let qpn = bth::destination_qp(bytes, 42).0;
            (usize::from(bytes[27]), qpn, bth::psn(bytes, 42).number())
        })
    }

    fn note_truth(&mut self, wire: usize, frame: &Frame, change: impl Fn(&mut Fate)) {
        let Some(id) = World::marked(frame) else {
            return;
        };
        let truth = self.truth.get_mut(&(id.0, self.window_of[&id])).unwrap();
        let wire = &self.wires[wire];
        if wire.from < usize::from(LEAVES) {
            change(&mut truth.up[wire.port as usize - 1]);
        } else {
            change(&mut truth.down[wire.from - usize::from(LEAVES)]);
        }
    }

    /// A packet leaves a leaf towards a spine: which window does it belong to?
    fn note_sent(&mut self, leaf: usize, spine: u16, frame: &Frame) {
        if be::get16(&frame.0, 36) == message::DEFAULT_PORT {
            let message = Message::read(&frame.0[42..]).unwrap();
            if message.header.kind == MessageKind::Open {
                self.open_on.insert((leaf, spine), message.header.epoch);
                self.truth.entry((leaf, message.header.epoch)).or_default();
            }
        } else if let Some(id) = World::marked(frame) {
            let epoch = self.open_on[&(leaf, spine)];
            let colour = frame.0[42 + bth::RESV8A] & bth::COLOUR != 0;
            assert_eq!(colour, epoch % 2 == 1, "colour of epoch {epoch}");
            assert_eq!(
                self.window_of.insert(id, epoch),
                None,
                "marked twice: {id:?} {epoch}"
            );
            self.truth.get_mut(&(leaf, epoch)).unwrap().sent[usize::from(spine)] += 1;
        }
    }

    fn move_packets(&mut self) {
        let now = self.net.now;
        for index in 0..usize::from(LEAVES) {
            while let Some(frame) = self.net.switches[index].egress(now, PortId(0)) {
                self.net.delivered[index].push_back(frame);
            }
        }
        for wire in 0..self.wires.len() {
            let Wire {
                from,
                port,
                to,
                in_port,
                delay_ns,
                loses_one_in,
                is_cut,
                ..
            } = self.wires[wire];
            while let Some(frame) = self.net.switches[from].egress(now, PortId(port)) {
                if from < usize::from(LEAVES) {
                    self.note_sent(from, port - 1, &frame);
                }
                if is_cut || loses_one_in > 0 && self.dice.one_in(loses_one_in) {
                    self.note_truth(wire, &frame, |fate| fate.lost += 1);
                    continue;
                }
                let is_twice = loses_one_in > 0 && self.dice.one_in(loses_one_in);
                let at = now.plus(delay_ns);
                if is_twice {
                    self.note_truth(wire, &frame, |fate| fate.repeated += 1);
                    self.wires[wire].flying.push_back((at, frame.clone()));
                }
                self.wires[wire].flying.push_back((at, frame));
            }
            while self.wires[wire]
                .flying
                .front()
                .is_some_and(|(at, _)| *at <= now)
            {
                let (_, frame) = self.wires[wire].flying.pop_front().unwrap();
                let sink = &mut self.net.sinks[to];
                self.net.switches[to].ingress(now, PortId(in_port), frame, sink);
            }
        }
    }

    /// A cable is cut or mended at both ends; what flies on it is lost.
    fn set_cable(&mut self, leaf: u16, spine: u16, up: bool) {
        self.net.set_link(leaf, spine + 1, up);
        self.net.set_link(LEAVES + spine, leaf, up);
        for wire in 0..self.wires.len() {
            let w = &mut self.wires[wire];
            let ends = [usize::from(leaf), usize::from(LEAVES + spine)];
            if ends.contains(&w.from) && ends.contains(&w.to) {
                w.is_cut = !up;
                for (_, frame) in std::mem::take(&mut w.flying) {
                    self.note_truth(wire, &frame, |fate| fate.lost += 1);
                }
            }
        }
    }

    fn flap(&mut self) {
        let now = self.net.now;
        if self.dice.one_in(1500) {
            let leaf = self.dice.below(u64::from(LEAVES)) as u16;
            let spine = self.dice.below(u64::from(SPINES)) as u16;
            if !self.down.iter().any(|&(l, s, _)| (l, s) == (leaf, spine)) {
                self.set_cable(leaf, spine, false);
                // Longer than its messages are on the way, as a hold-down makes it.
                let back = now.plus(4 * DELAY_NS + self.dice.below(2_000_000));
                self.down.push((leaf, spine, back));
            }
        }
        let (back, down): (Vec<_>, Vec<_>) = self.down.iter().partition(|&&(.., at)| at <= now);
        self.down = down;
        for (leaf, spine, _) in back {
            self.set_cable(leaf, spine, true);
        }
    }

    /// Hosts announce, send, resend, skip, stop, withdraw.
    fn hosts(&mut self, is_starting: bool) {
        if is_starting && self.flows.len() < 6 && self.dice.one_in(60) {
            let from = self.dice.below(u64::from(LEAVES)) as u16;
            let to = (from + 1 + self.dice.below(u64::from(LEAVES) - 1) as u16) % LEAVES;
            self.qpns += 1;
            let left = 20 + self.dice.below(1500) as u32;
            let first = [100, 0xff_fff0][self.dice.below(2) as usize];
            let said = match self.dice.below(8) {
                0 => u64::from(left / 2 + 1),
                1 => u64::from(left) * 2,
                _ => u64::from(left),
            };
            let mut header = host_header(MessageKind::Open, self.qpns, first, said);
            match self.dice.below(8) {
                0 => header.flags |= FLAG_FIRST_UNKNOWN,
                1 => header.first_psn = header.first_psn.plus(1 << 20),
                _ => {}
            }
            if !self.dice.one_in(10) {
                self.net.send(from, host_message(from, to, &header));
            }
            let next = first;
            self.flows.push(Flow {
                from,
                to,
                qpn: self.qpns,
                next,
                left,
            });
        }
        for index in (0..self.flows.len()).rev() {
            let Flow {
                from,
                to,
                qpn,
                next,
                left,
            } = self.flows[index];
            if self.dice.one_in(2) {
                continue;
            }
            if !self.dice.one_in(200) {
                self.net.send(from, data(from, to, qpn, next));
            }
            match self.dice.below(400) {
                0..20 => {
                    let back = 1 + self.dice.below(50) as u32;
                    self.net
                        .send(from, data(from, to, qpn, next.wrapping_sub(back)));
                }
                20..40 => self.net.send(from, roce(from, to, qpn, 77, Opcode::ACK)),
                40 => {
                    let header = host_header(MessageKind::Withdraw, qpn, next, 1);
                    self.net.send(from, host_message(from, to, &header));
                }
                41 => {
                    let header = host_header(
                        MessageKind::Open,
                        qpn,
                        next.wrapping_add(1),
                        u64::from(left),
                    );
                    self.net.send(from, host_message(from, to, &header));
                }
                _ => {}
            }
            let flow = &mut self.flows[index];
            flow.next = flow.next.wrapping_add(1);
            flow.left = left.saturating_sub(1);
            if flow.left == 0 || self.dice.one_in(2000) {
                self.flows.swap_remove(index);
            }
        }
    }

    fn run(&mut self, nanos: u64, is_starting: bool, flaps: bool) {
        let end = self.net.now.plus(nanos);
        while self.net.now < end {
            self.net.now = self.net.now.plus(2_000);
            self.hosts(is_starting);
            if flaps {
                self.flap();
            }
            self.move_packets();
            for (switch, sink) in self.net.switches.iter_mut().zip(&mut self.net.sinks) {
                switch.tick(self.net.now, sink);
            }
        }
    }
}

/// Compares one report with the truth; returns how many paths it had to say something of.
fn compare(seed: u64, report: &WindowReport, truth: &mut Truth) -> u64 {
    let about = format!(
        "seed {seed}, {} epoch {}: {report:?}",
        report.source, report.epoch
    );
    truth.reports += 1;
    assert_eq!(truth.reports, 1, "reported once; {about}");
    let Some(marked) = report.marked else {
        return 0;
    };
    let all = 0..usize::from(SPINES);
    let total: u64 = all.clone().map(|x| u64::from(report.sent[x])).sum();
    assert_eq!(total, marked, "S sums to M; {about}");
    let mut judged = 0;
    for x in report.usable.without(report.disturbed).iter() {
        let [sent, counted] = [report.sent[x], report.counts[x]].map(i64::from);
        let (up, down) = (truth.up[x], truth.down[x]);
        assert_eq!(sent, truth.sent[x], "S of spine {x}; {about}");
        let on_links = up.lost - up.repeated + down.lost - down.repeated;
        assert_eq!(sent - counted, on_links, "lost over spine {x}; {about}");
        if up.repeated + down.repeated == 0 {
            assert!(counted <= sent, "X over S; {about}");
        }
        if report.hops_filled.has(x) {
            let hop = report.hops[x];
            let [received, passed] = [hop.received, hop.sent].map(i64::from);
            assert_eq!(
                sent - received,
                up.lost - up.repeated,
                "uplink {x}; {about}"
            );
            assert_eq!(
                passed - counted,
                down.lost - down.repeated,
                "downlink {x}; {about}"
            );
            assert_eq!(hop.dropped, 0, "{about}");
        }
        judged += 1;
    }
    judged
}

/// Fault: packets late, twice, lost anywhere, hosts that lie
/// Forwarding: as links let them
/// Verdicts: right or void, over 60 random fabrics
/// Counter: -
/// Right again: -
#[test]
fn a_report_is_the_truth_whatever_links_and_hosts_do() {
    let (mut windows, mut reported, mut paths, mut lost, mut unseen) = (0, 0, 0, 0, 0);
    for seed in 0..RUNS {
        let mut world = World::new(seed);
        world.run(12_000_000, true, seed % 3 != 0);
        world.flows.clear();
        for (leaf, spine, _) in std::mem::take(&mut world.down) {
            world.set_cable(leaf, spine, true);
        }
        world.run(8_000_000, false, false);
        world.net.assert_conserved();
        let opened: u64 = (0..LEAVES)
            .map(|leaf| world.net.noted(leaf, Note::WindowsOpened))
            .sum();
        let mut told = 0;
        for leaf in 0..LEAVES {
            for report in world.net.take_windows(leaf) {
                // Only marks came of it: whose they were is not known.
                if report.usable.is_empty() {
                    continue;
                }
                let id = (report.source.index(), report.epoch);
                paths += compare(seed, &report, world.truth.get_mut(&id).unwrap());
                told += 1;
            }
        }
        let named: u64 = (0..LEAVES)
            .flat_map(|leaf| {
                [
                    Note::ClosesUnknown,
                    Note::WindowsUnnamed,
                    Note::ColourClash,
                    Note::RowsExpired,
                ]
                .map(|note| world.net.noted(leaf, note))
            })
            .sum();
        // Of a window without a report nothing that was marked has arrived, or its loss has a name.
        let silent = world.truth.values().filter(|t| t.reports == 0);
        let orphans = silent.filter(|t| t.arrived() > 0).count() as u64;
        assert!(
            orphans <= named,
            "seed {seed}: {orphans} windows are lost, {named} named"
        );
        windows += opened;
        reported += told;
        unseen += opened - told;
        let fates = world
            .truth
            .values()
            .flat_map(|t| t.up.iter().chain(&t.down));
        lost += fates.map(|fate| fate.lost).sum::<i64>();
    }
    println!(
        "{RUNS} runs: {windows} windows, {reported} reported, {unseen} of which nothing arrived; \
         {paths} paths compared, {lost} marked packets lost"
    );
    assert!(
        paths > 1_000 && lost > 1_000,
        "{paths} paths, {lost} lost: the runs tested nothing"
    );
}

//! Links that lose packets, under switches on several lcores: counts differ by what was lost, exactly,
//! and control names the link.

mod process;

use std::collections::BTreeMap;

use agent::core::Core;
use agent::seam::Body;
use config::{Evidence, Preset, TestbedConfig};
use packet::be;
use pipeline::{Note, Policy, Route, WindowReport};
use process::{Flow, HOSTS, LEAVES, Process, SPINES, is_marked};

/// Rounds in which what is on its way comes to its end, closes and their copies with it.
const LAST_ROUNDS: usize = 4_000;
/// Packets that a host sends in a round: 16 of 1 kB at 10 Gbit/s take 13 us of its 100 Gbit/s.
const BURST: u32 = 16;

/// Loses each so many-th data packet of a link.
struct Loss {
    link: &'static str,
    every: u64,
    seen: u64,
}

/// A process under test, and what was lost and reported.
struct Run {
    process: Process,
    losses: Vec<Loss>,
    /// Marked packets that were lost: by addresses, QP, and spine.
    lost: BTreeMap<(u32, u32, u32, usize), u32>,
    windows: Vec<WindowReport>,
    core: Core,
}

impl Run {
    fn new(name: &str, lcores: usize, losses: &[(&'static str, u64)]) -> Run {
        let config = TestbedConfig {
            leaves: LEAVES as u16,
            spines: SPINES as u16,
            evidence: Evidence::HopCounts,
            ..TestbedConfig::preset(Preset::Default)
        };
        let loss = |&(link, every): &(&'static str, u64)| Loss {
            link,
            every,
            seen: 0,
        };
        Run {
            process: Process::new(name, lcores),
            losses: losses.iter().map(loss).collect(),
            lost: BTreeMap::new(),
            windows: Vec::new(),
            core: Core::new(config.rules()),
        }
    }

    fn round(&mut self) {
        let (losses, lost) = (&mut self.losses, &mut self.lost);
        let reports = self.process.round(|link, frame| {
            let Some(loss) = losses.iter_mut().find(|loss| loss.link == link) else {
                return true;
            };
            if !is_marked(frame) {
                return true;
            }
            loss.seen += 1;
            let passes = !loss.seen.is_multiple_of(loss.every);
            if !passes {
                let spine = usize::from(link.ends_with("spine1") || link.starts_with("spine1"));
                let ends = (be::get32(frame, 26), be::get32(frame, 30));
                let qpn = be::get32(frame, 46) & 0x00ff_ffff;
                *lost.entry((ends.0, ends.1, qpn, spine)).or_default() += 1;
            }
            passes
        });
        for (_, report) in reports {
            match report.body {
                Body::Opened(opened) => {
                    self.core.on_opened(&opened);
                }
                Body::Window(window) => {
                    self.core.on_window(&window);
                    self.windows.push(window);
                }
                Body::Dropped(_) => {}
            }
        }
    }

    /// Two flows at a time, one each way, until each pair of hosts had one.
    fn flows(&mut self, pairs: u8, packets: u32) {
        self.flows_with(pairs, packets, |_| {});
    }

    /// The same; something is done in the middle of the first two.
    fn flows_with(&mut self, pairs: u8, packets: u32, mut middle: impl FnMut(&mut Process)) {
        for host in 0..pairs {
            let flow = |from: usize| Flow {
                from: (from, host),
                to: (1 - from, (host + 3) % HOSTS),
                qpn: 0x100 + u32::from(host) * 2 + from as u32,
            };
            let flows = [flow(0), flow(1)];
            for flow in &flows {
                let frame = flow.announcement(u64::from(packets));
                self.process.send(flow.from.0, &frame);
            }
            (0..3).for_each(|_| self.round());
            for psn in 0..packets {
                if host == 0 && psn == packets / 2 {
                    middle(&mut self.process);
                }
                for flow in &flows {
                    self.process.send(flow.from.0, &flow.data(psn));
                }
                if psn % BURST == BURST - 1 {
                    self.round();
                }
            }
            (0..40).for_each(|_| self.round());
        }
        (0..LAST_ROUNDS).for_each(|_| self.round());
    }
}

/// Goal: what a window's counts differ by is what its links lost, up to the packet, however many
/// lcores its leaves and spines are on.
#[test]
fn counts_differ_by_what_was_lost_on_any_number_of_lcores() {
    for lcores in 1..=3 {
        let losses = [
            ("leaf0>spine1", 31),
            ("spine0>leaf1", 23),
            ("spine1>leaf0", 17),
        ];
        let mut run = Run::new(&format!("d{lcores}"), lcores, &losses);
        run.flows(12, 320);
        let Run {
            process,
            windows,
            mut lost,
            ..
        } = run;
        let (mut judged, mut total) = (0, 0);
        for window in windows.iter().filter(|window| window.marked.is_some()) {
            judged += 1;
            let key = window.key;
            let ends = (key.source.as_v4(), key.destination.as_v4());
            let (Some(from), Some(to)) = ends else {
                panic!("{key:?} is not IPv4");
            };
            for spine in 0..SPINES {
                let missing = window.sent[spine] - window.counts[spine];
                let expected = lost.remove(&(from, to, key.qpn.0, spine)).unwrap_or(0);
                assert_eq!(
                    missing, expected,
                    "{lcores} lcores: {key:?} over spine {spine}"
                );
                total += missing;
            }
        }
        assert!(
            lost.is_empty(),
            "{lcores} lcores: lost in no window: {lost:?}"
        );
        assert!(
            judged >= 20 && total > 100,
            "{judged} windows, {total} lost"
        );
        let wholes = process.end();
        let counted: u64 = wholes.iter().map(|w| w.counters.noted(Note::Counted)).sum();
        let marked: u64 = wholes.iter().map(|w| w.counters.noted(Note::Marked)).sum();
        assert_eq!(marked - counted, u64::from(total), "{lcores} lcores");
    }
}

/// Goal: a whole 2x2 fabric, every switch of it on two lcores, names the link that loses packets and
/// nobody else; the same without a fault names none.
#[test]
fn a_fabric_on_two_lcores_names_its_lossy_link() {
    for (name, link) in [
        ("u", Some("leaf1>spine0")),
        ("v", Some("spine1>leaf1")),
        ("w", None),
    ] {
        let losses: Vec<_> = link.iter().map(|&link| (link, 50)).collect();
        let mut run = Run::new(name, 2, &losses);
        run.flows(4, 4_000);
        run.core.finish();
        let found = run.core.locate();
        let convicted: Vec<String> = found.convicted.iter().map(|c| c.link.to_string()).collect();
        let expected: Vec<String> = link.iter().map(|&link| link.to_owned()).collect();
        assert_eq!(convicted, expected, "{:?}", found.suspects);
        assert!(found.suspects.is_empty(), "{:?}", found.suspects);
        if let Some(found) = found.convicted.first() {
            assert!(
                (0.015..0.025).contains(&found.drop_rate),
                "{}",
                found.drop_rate
            );
        }
        run.process.end();
    }
}

/// Goal: spray, routes and measuring change on one to three lcores while packets flow; each change is
/// in force, none costs a packet, and windows are whole or void.
#[test]
fn changes_cost_no_packet_on_any_number_of_lcores() {
    for lcores in 1..=3 {
        let mut run = Run::new(&format!("c{lcores}"), lcores, &[]);
        let policies = [
            Policy::RoundRobin,
            Policy::Random,
            Policy::Jsq,
            Policy::Jsq2,
        ];
        for (round, policy) in policies.into_iter().enumerate() {
            assert_eq!(run.process.changed(), 0);
            run.flows_with(2, 320, |process| {
                for leaf in 0..LEAVES {
                    process.change(leaf, |config| {
                        config.policy = policy;
                        config.measurement.window_packets_max = 40 + round as u64;
                    });
                }
                for spine in LEAVES..LEAVES + SPINES {
                    process.change(spine, |config| {
                        // Tables are exchanged, and lead where they did.
                        let whole = config.routes[0];
                        let prefix = format!("10.0.{}.0/24", 100 + round);
                        let prefix = prefix.parse().expect("a prefix");
                        config.routes.push(Route { prefix, ..whole });
                    });
                }
            });
            assert_eq!(run.process.changed(), (LEAVES + SPINES) * lcores);
        }
        run.flows(2, 160);
        let (sent, lost) = run.process.fate();
        assert_eq!(lost, 0);
        let windows = run.windows.iter().filter(|window| !window.is_changed);
        let mut marked = 0;
        for window in windows.filter(|window| window.marked.is_some()) {
            assert_eq!(
                window.counts, window.sent,
                "{lcores} lcores: {:?}",
                window.key
            );
            marked += window.marked.unwrap_or(0);
        }
        assert!(
            marked > 1000,
            "{lcores} lcores: only {marked} packets were measured"
        );
        let short = run
            .windows
            .iter()
            .filter(|window| window.marked.is_some_and(|m| m <= 44));
        assert!(short.count() > 20, "windows of the new length are missing");
        let arrived = run.process.arrived;
        let wholes = run.process.end();
        let announced = 2 * 2 * 5;
        assert_eq!(
            arrived,
            sent - announced,
            "{lcores} lcores: a packet is lost"
        );
        let voided = run
            .windows
            .iter()
            .filter(|window| window.is_changed)
            .count();
        assert!(voided > 0, "no window ran when its destination changed");
        let dropped: u64 = wholes
            .iter()
            .map(|whole| whole.counters.dropped_total())
            .sum();
        assert_eq!(dropped, 0, "{lcores} lcores");
    }
}

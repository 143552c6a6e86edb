//! A million mutated frames through each kind of port: no panic, and every packet is accounted for.
//!
//! The seeds are the captures of real RDMA stacks in `tests/corpus`, with marked data and messages
//! of hosts and switches beside them. The stable toolchain runs it; the seed is fixed.
//! `FUZZ_FRAMES` is another number of frames for each port, `FUZZ_SEED` another seed, and `FUZZ_KEEP` a
//! file to which a line of the run is added (`scripts/trust fuzz`).

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use packet::message::{FLAG_COUNTS, FLAG_HOP_ROOM, FLAG_SWITCH, MessageKind};
use packet::{Address, bth, ethernet, message, parse};
use pipeline::report::Command;
use pipeline::*;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::net::*;

const FRAMES_PER_PORT: u64 = 1_000_000;
const SEED: u64 = 4791;

/// A number from the environment.
fn set(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|error| panic!("{name}={text}: {error}"))
    })
}

/// A frame of which the switch may see the first bytes alone.
#[derive(Clone)]
struct Piece {
    bytes: Vec<u8>,
    wire_len: u32,
    is_whole: bool,
}

impl Token for Piece {
    fn header(&self) -> &[u8] {
        &self.bytes
    }
    fn header_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn wire_len(&self) -> u32 {
        self.wire_len
    }
    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

#[derive(Default)]
struct Tally {
    made: u64,
    dropped: u64,
    consumed: u64,
    reports: u64,
}

impl Sink<Piece> for Tally {
    fn alloc(&mut self, len: usize) -> Option<Piece> {
        self.made += 1;
        Some(Piece {
            bytes: vec![0; len],
            wire_len: len as u32,
            is_whole: true,
        })
    }
    fn discard(&mut self, _token: Piece, _reason: DropReason) {
        self.dropped += 1;
    }
    fn consume(&mut self, _token: Piece) {
        self.consumed += 1;
    }
    fn report(&mut self, _report: Report<'_>) -> bool {
        self.reports += 1;
        !self.reports.is_multiple_of(16)
    }
}

/// The frames of all captures: little-endian microsecond pcap, the one form that is in the corpus.
fn captured() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
    let mut paths: Vec<_> = std::fs::read_dir(&corpus)
        .unwrap_or_else(|error| panic!("{}: {error}", corpus.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pcap")
        })
        .collect();
    paths.sort();
    let mut frames = Vec::new();
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[..4], [0xd4, 0xc3, 0xb2, 0xa1], "{}", path.display());
        let mut at = 24;
        while at + 16 <= bytes.len() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let len = word(at + 8) as usize;
            frames.push(bytes[at + 16..at + 16 + len].to_vec());
            at += 16 + len;
        }
    }
    frames
}

/// Marked data and messages of hosts and switches, between such addresses.
fn made() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        for n in 0..20 {
            let mut frame = data(from, to, 7, 100 + n);
            frame.0[42 + bth::RESV8A] |= n as u8 & 3;
            frames.push(frame.0);
        }
        for kind in [MessageKind::Open, MessageKind::Withdraw] {
            frames.push(host_message(from, to, &host_header(kind, 7, 100, 20)).0);
        }
        for epoch in 1..5 {
            for (kind, flags, fanout) in [
                (MessageKind::Open, FLAG_SWITCH, SPINES),
                (
                    MessageKind::Close,
                    FLAG_SWITCH | FLAG_COUNTS | FLAG_HOP_ROOM,
                    SPINES,
                ),
                (MessageKind::LinkState, FLAG_SWITCH, LEAVES),
            ] {
                let mut header = host_header(kind, 7, 100, 20);
                (header.flags, header.fanout, header.epoch) = (flags, fanout, epoch);
                header.flow_id = 0;
                let mut payload = vec![0; message::LEN_MAX];
                let len = message::write(&mut payload, &header, |_| true, |x| 5 + x as u32);
                frames.push(udp(from, to, message::DEFAULT_PORT, &payload[..len]).0);
            }
        }
    }
    frames
}

struct Mutator {
    seeds: Vec<Vec<u8>>,
    random: Xoshiro256PlusPlus,
}

impl Mutator {
    fn below(&mut self, count: usize) -> usize {
        (self.random.next_u64() % count.max(1) as u64) as usize
    }

    fn next(&mut self, port: &PortConfig) -> Piece {
        let seed = self.below(self.seeds.len());
        let mut bytes = self.seeds[seed].clone();
        ethernet::set_addresses(&mut bytes, port.mac, port.peer_mac);
        // One in four as it is: state needs frames that get through.
        for _ in 0..self.below(4) {
            let len = bytes.len();
            // Headers are where meaning is.
            let reach = [len, 60, 100][self.below(3)];
            let at = self.below(len.min(reach));
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => bytes.resize(len + self.below(64), 0xa5),
                2 => {
                    let other = self.below(self.seeds.len());
                    let from = &self.seeds[other];
                    let to = len.min(from.len());
                    bytes.truncate(at.min(to));
                    bytes.extend_from_slice(&from[at.min(to)..]);
                }
                3 if at + 2 <= len => {
                    let value = [0, 1, 7, 8, 0x7fff, 0xffff, len as u16][self.below(7)];
                    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
                }
                4 if at < len => {
                    bytes.insert(at, 0);
                }
                5 if at < len => bytes[at] = self.random.next_u64() as u8,
                _ if at < len => bytes[at] ^= 1 << self.below(8),
                _ => {}
            }
        }
        let more = if self.below(8) == 0 {
            self.below(70_000)
        } else {
            0
        };
        Piece {
            wire_len: (bytes.len() + more) as u32,
            is_whole: self.below(200) != 0,
            bytes,
        }
    }
}

/// The test fabric's configuration with the corpus' addresses on leaves 0 and 1.
fn config_for(index: u16, addresses: &[Address]) -> SwitchConfig {
    let mut measurement = measurement(false);
    measurement.rows_max = 8;
    measurement.idle_ns_max = 300_000;
    measurement.window_packets_max = 50;
    measurement.row_ns_max = 5_000_000;
    let mut config = config(index, &measurement);
    // Where spines speak, that is: to the host port's leaf they do not.
    config.link_state_ns = (index != 0).then_some(1_000_000);
    config.queue.limit_bytes = 40_000;
    config.queue.packets_max = 300;
    for (place, &address) in addresses.iter().enumerate() {
        let leaf = place as u16 % 2;
        let next = if config.role == Role::Leaf(LeafId(leaf)) {
            config.hosts.push(HostConfig {
                address,
                mac: (place % 4 != 0).then(|| host_mac(leaf)),
                port: 0,
            });
            NextHop::Host(config.hosts.len() as u16 - 1)
        } else {
            NextHop::Leaf(LeafId(leaf))
        };
        config.routes.push(Route {
            prefix: Prefix::host(address),
            next,
        });
    }
    config
}

fn soak(name: &str, config: &SwitchConfig, port: u16, mutator: &mut Mutator) -> Counters {
    let mut switch: Switch<Piece> = Switch::new(config);
    let mut tally = Tally::default();
    let (mut now, mut sent, mut commands) = (Nanos(0), 0u64, 0);
    let started = Instant::now();
    let frames = set("FUZZ_FRAMES", FRAMES_PER_PORT);
    for fed in 1..=frames {
        let frame = mutator.next(&config.ports[usize::from(port)]);
        if mutator.below(500) == 0 {
            switch.ingress_damaged(PortId(port), frame, &mut tally);
        } else {
            switch.ingress(now, PortId(port), frame, &mut tally);
        }
        match mutator.below(64) {
            0..8 => now = now.plus(mutator.below(20_000) as u64),
            8..16 => switch.tick(now, &mut tally),
            16..32 => {
                let out = PortId(mutator.below(config.ports.len()) as u16);
                while switch.egress(now, out).is_some() {
                    sent += 1;
                }
            }
            32 => {
                // Up more often than down, or nothing would pass.
                let which = PortId(mutator.below(config.ports.len()) as u16);
                let up = mutator.below(4) != 0;
                switch.set_link(now, which, up, &mut tally);
            }
            33 => {
                let command = match mutator.below(3) {
                    0 => Command::ResetMasks,
                    1 => Command::SetEnabled {
                        port: PortId(mutator.below(config.ports.len() + 1) as u16),
                        enabled: mutator.below(4) != 0,
                    },
                    _ => Command::Threshold {
                        row: mutator.below(12) as u32,
                        generation: mutator.below(20) as u32,
                        epoch: mutator.below(5) as u32,
                        threshold: mutator.below(100) as u32,
                    },
                };
                switch.apply(now, command, &mut tally);
                commands += 1;
            }
            _ => {}
        }
        if fed.is_multiple_of(1000) {
            let counters = switch.counters();
            assert!(switch.is_conserved(), "{name} after {fed}: {counters:?}");
            // Tokens by the driver's count, which knows nothing of the switch's.
            let ended = sent + tally.dropped + tally.consumed + counters.queued;
            assert_eq!(fed + tally.made, ended, "{name} after {fed}: tokens");
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    switch.drain(now, &mut tally);
    assert_eq!(switch.counters().queued, 0);
    assert!(switch.is_conserved());
    println!(
        "{name}: {frames} frames, {:.0} a second; {sent} sent, {} consumed, {} made, {} reports, {commands} commands",
        frames as f64 / seconds,
        tally.consumed,
        tally.made,
        tally.reports
    );
    for reason in DropReason::ALL {
        let dropped = switch.counters().dropped(*reason);
        if dropped > 0 {
            println!("  {dropped:>7} {}", reason.name());
        }
    }
    let counters = switch.counters();
    let noted: Vec<_> = (Note::ALL.iter().filter(|note| counters.noted(**note) > 0))
        .map(|note| format!("{} {}", counters.noted(*note), note.name()))
        .collect();
    let missed: Vec<_> = (Note::ALL.iter().filter(|note| counters.noted(**note) == 0))
        .map(|note| note.name())
        .collect();
    println!("  {}", noted.join(", "));
    println!("  not reached: {}", missed.join(", "));
    counters.clone()
}

#[test]
fn mutated_frames_are_all_accounted_for() {
    let begun = Instant::now();
    let mut seeds = captured();
    assert!(seeds.len() > 1_000, "{} captured frames", seeds.len());
    let mut addresses = BTreeSet::new();
    for frame in &seeds {
        if let Ok(parsed) = parse(frame, frame.len(), message::DEFAULT_PORT) {
            addresses.extend([parsed.source, parsed.destination]);
        }
    }
    let addresses: Vec<Address> = addresses.into_iter().filter(|a| a.0 != 0).collect();
    // As many of our own, so that windows open, count and close under the noise.
    let made = made();
    while seeds.len() < 4_000 {
        seeds.extend_from_slice(&made);
    }
    let mut mutator = Mutator {
        seeds,
        random: Xoshiro256PlusPlus::seed_from_u64(set("FUZZ_SEED", SEED)),
    };
    let host = soak(
        "leaf, host port",
        &config_for(0, &addresses),
        0,
        &mut mutator,
    );
    let fabric = soak(
        "leaf, fabric port",
        &config_for(1, &addresses),
        1,
        &mut mutator,
    );
    let spine = soak("spine", &config_for(LEAVES, &addresses), 0, &mut mutator);
    // The noise must not have drowned what is to be exercised.
    for (counters, note) in [
        (&host, Note::Marked),
        (&host, Note::WindowsClosed),
        (&fabric, Note::Counted),
        (&fabric, Note::WindowsReported),
        (&spine, Note::Roce),
    ] {
        assert!(
            counters.noted(note) > 100,
            "{} {}",
            counters.noted(note),
            note.name()
        );
    }
    assert!(spine.tx > 10_000, "{} through the spine", spine.tx);
    if let Ok(path) = std::env::var("FUZZ_KEEP") {
        let line = format!(
            "fuzz seed={} frames={} seconds={:.0}\n",
            set("FUZZ_SEED", SEED),
            3 * set("FUZZ_FRAMES", FRAMES_PER_PORT),
            begun.elapsed().as_secs_f64()
        );
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

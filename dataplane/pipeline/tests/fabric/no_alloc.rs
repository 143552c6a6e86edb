//! After start the burst loop allocates nothing: not for packets, windows, messages or reports.

use crate::gateway::*;
use crate::neighbors::*;
use crate::net::*;
use pipeline::*;

/// A sink whose packets come from a store that was filled before.
struct Store {
    free: Vec<Frame>,
    windows: u64,
}

impl Sink<Frame> for Store {
    fn alloc(&mut self, len: usize) -> Option<Frame> {
        let mut frame = self.free.pop()?;
        frame.0.resize(len, 0);
        Some(frame)
    }
    fn discard(&mut self, token: Frame, _reason: DropReason) {
        self.free.push(token);
    }
    fn consume(&mut self, token: Frame) {
        self.free.push(token);
    }
    fn report(&mut self, report: Report<'_>) -> bool {
        self.windows += u64::from(matches!(report, Report::Window(_)));
        true
    }
}

/// A leaf, the spines and another leaf, joined by hand, without a list that could grow.
struct Chain {
    source: Switch<Frame>,
    spines: Vec<Switch<Frame>>,
    destination: Switch<Frame>,
    store: Store,
    now: Nanos,
}

impl Chain {
    fn round(&mut self) {
        let Chain {
            source,
            spines,
            destination,
            store,
            now,
        } = self;
        *now = now.plus(10_000);
        for (x, spine) in spines.iter_mut().enumerate() {
            let uplink = PortId(1 + x as u16);
            while let Some(frame) = source.egress(*now, uplink) {
                spine.ingress(*now, PortId(0), frame, store);
            }
            while let Some(frame) = spine.egress(*now, PortId(1)) {
                destination.ingress(*now, uplink, frame, store);
            }
            spine.tick(*now, store);
        }
        while let Some(frame) = destination.egress(*now, PortId(0)) {
            store.free.push(frame);
        }
        source.tick(*now, store);
        destination.tick(*now, store);
    }

    fn send(&mut self, template: &Frame) {
        let mut frame = self.store.free.pop().expect("the store was filled");
        frame.0.clear();
        frame.0.extend_from_slice(&template.0);
        self.source
            .ingress(self.now, PortId(0), frame, &mut self.store);
    }

    /// A whole flow: announcement, packets, some of them twice, an acknowledgement now and then.
    fn flow(
        &mut self,
        qpn: u32,
        packets: u32,
        announcement: &Frame,
        data: &mut Frame,
        ack: &Frame,
    ) {
        self.send(announcement);
        for n in 0..packets {
            data.0[47..50].copy_from_slice(&qpn.to_be_bytes()[1..]);
            data.0[51..54].copy_from_slice(&(100 + n).to_be_bytes()[1..]);
            self.send(data);
            if n % 7 == 0 {
                self.send(data);
                self.send(ack);
            }
            if n % 8 == 7 {
                self.round();
            }
        }
        for _ in 0..20 {
            self.round();
        }
    }
}

#[test]
fn the_burst_loop_allocates_nothing() {
    let switch = |index| Switch::new(&config(index, &measurement(false)));
    let mut chain = Chain {
        source: switch(0),
        spines: (0..SPINES).map(|x| switch(LEAVES + x)).collect(),
        destination: switch(1),
        store: Store {
            free: (0..4096).map(|_| Frame(Vec::with_capacity(2048))).collect(),
            windows: 0,
        },
        now: Nanos(0),
    };
    let mut data = data(0, 1, 7, 100);
    let ack = roce(0, 1, 7, 100, packet::Opcode::ACK);
    let announcements: Vec<Frame> = (0..8)
        .map(|n| announcement(0, 1, 7 + n, 100, 400))
        .collect();
    // The first flow fills what fills once; from then on nothing may grow.
    chain.flow(7, 400, &announcements[0], &mut data, &ack);
    let allocations = allocation_counter::measure(|| {
        for n in 1..8 {
            chain.flow(7 + n, 400, &announcements[n as usize], &mut data, &ack);
        }
    });
    assert_eq!(chain.store.windows, 8, "every flow was measured");
    assert_eq!(chain.destination.counters().noted(Note::Counted), 8 * 400);
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
}

#[test]
fn finding_flows_allocates_nothing() {
    let switch = |index| {
        let mut config = config(index, &measurement(false));
        config.measurement.windows = WindowPlan {
            is_off: false,
            spine_packets: 25,
            finds_flows: true,
            silence_ns: 1_000_000,
            is_narrow: false,
        };
        Switch::new(&config)
    };
    let mut chain = Chain {
        source: switch(0),
        spines: (0..SPINES).map(|x| switch(LEAVES + x)).collect(),
        destination: switch(1),
        store: Store {
            free: (0..4096).map(|_| Frame(Vec::with_capacity(2048))).collect(),
            windows: 0,
        },
        now: Nanos(0),
    };
    let mut data = data(0, 1, 7, 100);
    let mut run = |chain: &mut Chain, qpn: u32| {
        for n in 0..1_000u32 {
            data.0[47..50].copy_from_slice(&qpn.to_be_bytes()[1..]);
            data.0[51..54].copy_from_slice(&n.to_be_bytes()[1..]);
            chain.send(&data);
            if n % 8 == 7 {
                chain.round();
            }
        }
    };
    run(&mut chain, 7);
    let allocations = allocation_counter::measure(|| (8..12).for_each(|qpn| run(&mut chain, qpn)));
    assert!(chain.store.windows >= 8, "{} windows", chain.store.windows);
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
}

#[test]
fn answers_and_questions_allocate_nothing() {
    let mut config = config(0, &measurement(false));
    with_prefixes(&mut config);
    let mut leaf: Switch<Frame> = Switch::new(&config);
    let mut store = Store {
        free: (0..64).map(|_| Frame(Vec::with_capacity(2048))).collect(),
        windows: 0,
    };
    let stranger = |n: u16| address(&format!("10.0.9.{n}"));
    let templates: Vec<Frame> = (0..16)
        .flat_map(|n| {
            [
                ping(0, gateway(0, n % 2 == 0), 64, n),
                probe(0, host(1, n % 2 == 0), 1),
                solicitation(host_mac(0), host(0, true), host(1, true)),
                arp_request(host_mac(0), &format!("10.0.9.{n}"), "10.0.0.254"),
                frame(0, host(0, false), stranger(100 + n), 9, 132, &[0; 8]),
            ]
        })
        .collect();
    let allocations = allocation_counter::measure(|| {
        let mut now = Nanos(0);
        for _ in 0..10 {
            for template in &templates {
                let mut frame = store.free.pop().expect("the store was filled");
                frame.0.clear();
                frame.0.extend_from_slice(&template.0);
                leaf.ingress(now, PortId(0), frame, &mut store);
                now = now.plus(10_000);
                while let Some(frame) = leaf.egress(now, PortId(0)) {
                    store.free.push(frame);
                }
            }
        }
    });
    for note in [
        Note::EchoAnswered,
        Note::IcmpErrorsSent,
        Note::DiscoveryAnswered,
        Note::ArpAnswered,
        Note::NeighborsAsked,
        Note::NeighborsFull,
    ] {
        assert!(leaf.counters().noted(note) > 0, "no {}", note.name());
    }
    assert!(leaf.is_conserved());
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
}

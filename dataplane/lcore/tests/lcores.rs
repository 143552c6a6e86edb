//! A leaf on two and three lcores: nothing is lost between them, what its closes say was sent is what
//! went out, priorities are strict, and one window is open at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent::control::Shared;
use config::SwitchSpec;
use dpdk::{Burst, Mempool, RingReceiver, RingSender, test_support};
use lcore::build;
use lcore::end::{Rx, Tx};
use lcore::hub::Hub;
use lcore::links_up::LinkWord;
use lcore::shares::Shares;
use lcore::trunk::{Dealer, Inlet, Lane, Outlet, TrunkCounters};
use lcore::worker::{Setup, Worker};
use packet::bth::{self, BthFields, Opcode};
use packet::ip::{self, Address, IpFields};
use packet::message::{self, Header, Message, MessageKind};
use packet::{MacAddr, Psn, Qpn, ROCE_PORT, be, ethernet};
use pipeline::fault::Fault;
use pipeline::split::{self, Whole};
use pipeline::{DropReason, Nanos, Note, PortId, Switch};

const HOSTS: usize = 2;
const SPINES: usize = 4;
const STEP_NS: u64 = 10_000;
/// Payload of a data packet.
const PAYLOAD: usize = 900;

/// A leaf with two host ports and four uplinks of 1 Gbit/s, `limit` bytes in each queue.
fn spec(limit: u32) -> SwitchSpec {
    let mut text = format!(
        "name = \"leaf0\"\nrole = \"leaf0\"\n[fabric]\nleaves = 2\nspines = {SPINES}\nlink_state = \"off\"\n\
         [queue]\nlimit = {limit}\npackets = 1024\n"
    );
    for port in 0..HOSTS {
        text += &format!(
            "[[port]]\nname = \"h{port}\"\nkind = \"host\"\nmac = \"{}\"\nrate = \"10Gbps\"\nprefixes = [\"10.0.{port}.0/24\"]\n",
            mac(0, port)
        );
    }
    for spine in 0..SPINES {
        text += &format!(
            "[[port]]\nname = \"u{spine}\"\nkind = \"uplink\"\npeer = \"spine{spine}\"\nmac = \"{}\"\npeer_mac = \"{}\"\nrate = \"1Gbps\"\n",
            mac(0, HOSTS + spine),
            mac(1, spine)
        );
    }
    text += "[[route]]\nprefix = \"10.1.0.0/16\"\nleaf = \"leaf1\"\n";
    SwitchSpec::parse(Path::new("leaf0.toml"), &text).expect("a right file")
}

fn mac(switch: u8, port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, switch, port as u8])
}

/// An address of host `host` behind a port, and of one behind the other leaf.
fn ours(port: usize, host: u8) -> Address {
    Address::v4(0x0a00_0000 | (port as u32) << 8 | u32::from(host))
}

fn theirs(host: u8) -> Address {
    Address::v4(0x0a01_0000 | u32::from(host))
}

/// A frame of a host towards the fabric, of DSCP `dscp`.
fn udp(port: usize, hosts: (u8, u8), dscp: u8, to_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0u8; 42 + payload.len()];
    ethernet::set_addresses(&mut frame, mac(0, port), MacAddr([2, 9, 0, 0, 0, hosts.0]));
    be::put16(&mut frame, 12, ethernet::IPV4);
    let fields = IpFields {
        source: ours(port, hosts.0),
        destination: theirs(hosts.1),
        traffic_class: dscp << 2,
        ttl: 64,
        payload_len: (8 + payload.len()) as u16,
    };
    ip::write(&mut frame[14..], &fields);
    ip::write_udp(&mut frame[34..], 0xc123, to_port, payload.len() as u16);
    frame[42..].copy_from_slice(payload);
    frame
}

fn data(port: usize, hosts: (u8, u8), dscp: u8, psn: u32) -> Vec<u8> {
    let mut payload = vec![0u8; bth::HEADER_LEN + PAYLOAD + 4];
    let fields = BthFields {
        opcode: Opcode::WRITE_MIDDLE,
        destination_qp: Qpn(7),
        psn: Psn::new(psn),
        ack_req: false,
        pad: 0,
    };
    bth::write(&mut payload, &fields);
    udp(port, hosts, dscp, ROCE_PORT, &payload)
}

fn announcement(port: usize, hosts: (u8, u8), packets: u64) -> Vec<u8> {
    let header = Header {
        kind: MessageKind::Open,
        flags: 0,
        destination_qp: Qpn(7),
        first_psn: Psn::new(0),
        mtu_bytes: PAYLOAD as u32,
        packets,
        bytes: 0,
        flow_id: u64::from(hosts.1),
        fanout: 0,
        repetition: 0,
        epoch: 0,
    };
    let mut payload = vec![0u8; message::LEN_MAX];
    let len = message::write(&mut payload, &header, |_| false, |_| 0);
    udp(port, hosts, 26, message::DEFAULT_PORT, &payload[..len])
}

/// The leaf, with rings in the place of devices.
struct Leaf {
    workers: Vec<Worker>,
    into: Vec<RingSender>,
    out: Vec<RingReceiver>,
    pool: Mempool,
    links: Arc<LinkWord>,
    trunks: Arc<Vec<TrunkCounters>>,
    now: Nanos,
    sent: u64,
    /// What came out of each uplink.
    uplinks: Vec<Vec<Vec<u8>>>,
}

impl Leaf {
    fn new(name: &str, spec: &SwitchSpec, lcores: usize) -> Leaf {
        let eal = test_support::eal();
        let pool = test_support::pool(&format!("{name}p"), 4095, 2048);
        let ports = spec.config.ports.len();
        let (mut into, mut out) = (Vec::new(), Vec::new());
        let mut inlets: Vec<Vec<Inlet>> = (0..lcores).map(|_| Vec::new()).collect();
        let mut outlets: Vec<Vec<Outlet>> = (0..lcores).map(|_| Vec::new()).collect();
        for port in 0..ports {
            let ring = |kind: &str| dpdk::ring(eal, &format!("{name}{kind}{port}"), 512, None);
            let (to_leaf, rx) = ring("i").expect("a ring");
            let (tx, from_leaf) = ring("o").expect("a ring");
            let lane = [Lane {
                switch: 0,
                port: PortId(port as u16),
                vlan: None,
            }];
            inlets[port % lcores].push(Inlet {
                rx: Rx::Ring(rx),
                dealer: Dealer::new(&lane),
                device: port,
                is_spread: false,
            });
            let shares = Shares::new(1, None, 0, 24);
            let mut outlet = Outlet::new(Tx::Ring(tx), &lane, shares, port);
            outlet.inject(0, &spec.faults[port], 1);
            outlets[port % lcores].push(outlet);
            into.push(to_leaf);
            out.push(from_leaf);
        }
        let shared = Shared::on(lcores, [ports]);
        let hub = Arc::new(Hub::new([ports].into_iter(), lcores));
        let trunks: Arc<Vec<_>> = Arc::new((0..ports).map(|_| TrunkCounters::of(1)).collect());
        let links = Arc::new(LinkWord::new(ports));
        let rings = build::rings(eal, &format!("{name}r"), lcores).expect("rings");
        let parts = inlets.into_iter().zip(outlets).zip(rings).enumerate();
        let workers = parts.map(|(lcore, ((inlets, outlets), rings))| {
            let config = build::config_of(&spec.config, lcore, lcores);
            Worker::new(Setup {
                lcore: (lcore, lcores),
                switches: vec![Switch::new(&config)],
                owners: vec![(0..ports).map(|port| (port % lcores, port)).collect()],
                inlets,
                outlets,
                trunks: Arc::clone(&trunks),
                rings,
                pool: pool.clone(),
                seam: Arc::clone(&shared.seam),
                hub: Arc::clone(&hub),
                changes: Arc::default(),
                links: Arc::clone(&links),
            })
        });
        Leaf {
            workers: workers.collect(),
            into,
            out,
            pool,
            links,
            trunks,
            now: Nanos(0),
            sent: 0,
            uplinks: vec![Vec::new(); SPINES],
        }
    }

    fn send(&mut self, port: usize, frame: &[u8]) {
        let mut mbuf = self.pool.alloc().expect("the pool is large enough");
        mbuf.write(frame).expect("the buffer is large enough");
        self.into[port].send(mbuf).expect("the ring is long enough");
        self.sent += 1;
    }

    /// One round of every lcore, in turn.
    fn round(&mut self) {
        self.now = self.now.plus(STEP_NS);
        for worker in &mut self.workers {
            worker.round(self.now);
            worker.tick(self.now);
        }
        self.collect();
    }

    fn collect(&mut self) {
        let mut burst = Burst::new();
        for (port, ring) in self.out.iter_mut().enumerate() {
            while ring.receive_burst(&mut burst) > 0 {
                for mbuf in burst.drain() {
                    if let Some(uplink) = port.checked_sub(HOSTS) {
                        self.uplinks[uplink].push(mbuf.data().to_vec());
                    }
                }
            }
        }
    }

    fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round());
    }

    fn whole(&self) -> Whole {
        split::sum(self.workers.iter().map(|worker| &worker.parts()[0].switch))
    }

    /// Ends it: everything is accounted for and every buffer back.
    fn end(self) -> (Whole, Vec<Vec<Vec<u8>>>) {
        let Leaf {
            workers,
            into,
            out,
            pool,
            now,
            sent,
            uplinks,
            ..
        } = self;
        let workers = lcore::live::settle(workers.into_iter().map(|w| (w, now)).collect());
        let whole = split::sum(workers.iter().map(|worker| &worker.parts()[0].switch));
        assert!(whole.is_conserved(), "{whole:?}");
        assert_eq!(whole.counters.rx, sent, "each packet is received once");
        drop((workers, into, out));
        assert_eq!(pool.in_use(), 0, "a buffer has leaked");
        (whole, uplinks)
    }
}

/// What is known of a window from outside.
#[derive(Default, Debug)]
struct Seen {
    /// Marked packets by uplink.
    marked: [u32; SPINES],
    /// What its closes say, and its number.
    told: Vec<(u32, Vec<u32>)>,
}

/// Per destination address, what came out of the uplinks.
fn windows(uplinks: &[Vec<Vec<u8>>]) -> BTreeMap<u32, Seen> {
    let mut all = BTreeMap::<u32, Seen>::new();
    for (spine, frames) in uplinks.iter().enumerate() {
        for frame in frames {
            let seen = all.entry(be::get32(frame, 30)).or_default();
            let port = be::get16(frame, 36);
            if port == ROCE_PORT && frame[42 + bth::RESV8A] & bth::MARK != 0 {
                seen.marked[spine] += 1;
            }
            if port == message::DEFAULT_PORT {
                let message = Message::read(&frame[42..]).expect("the leaf writes right messages");
                if message.header.kind == MessageKind::Close {
                    let counts = (0..SPINES).map(|x| message.count(x).unwrap_or(0));
                    seen.told.push((message.header.epoch, counts.collect()));
                }
            }
        }
    }
    all
}

/// Announces flows two at a time and sends them faster than the uplinks are.
fn flows(leaf: &mut Leaf, flows: u8) {
    for pair in 0..flows / 2 {
        let hosts = [(1 + 2 * pair, 1 + 2 * pair), (2 + 2 * pair, 2 + 2 * pair)];
        for (port, hosts) in hosts.iter().enumerate() {
            leaf.send(port, &announcement(port, *hosts, 300));
        }
        leaf.rounds(3);
        for psn in 0..300 {
            for (port, hosts) in hosts.iter().enumerate() {
                leaf.send(port, &data(port, *hosts, 26, psn));
            }
            // Traffic in the way, at another priority.
            leaf.send(0, &data(0, (200, 200 + (psn % 40) as u8), 0, psn));
            if psn % 4 == 3 {
                leaf.round();
            }
        }
        leaf.rounds(100);
    }
}

/// Goal: what a port injects is lost behind it and nowhere else: the switch has sent it, a counter of its
/// own has it, and its buffer is back.
#[test]
fn an_injected_fault_loses_on_its_own_link_alone() {
    for lcores in 1..=2 {
        let mut faulty = spec(60_000);
        faulty.faults[HOSTS + 1] = vec![Fault::Drop(0.1)];
        let mut leaf = Leaf::new(&format!("f{lcores}"), &faulty, lcores);
        flows(&mut leaf, 24);
        leaf.rounds(3_000);
        let trunks = Arc::clone(&leaf.trunks);
        let (whole, uplinks) = leaf.end();
        for (port, uplink) in uplinks.iter().enumerate() {
            let sent = whole.ports[HOSTS + port].0.tx_packets;
            let lost = trunks[HOSTS + port].injected[0].load(Ordering::Relaxed);
            assert_eq!(sent, uplink.len() as u64 + lost, "uplink {port}");
            // Five standard deviations of a binomial count.
            let expected = if port == 1 { sent as f64 * 0.1 } else { 0.0 };
            let off = (lost as f64 - expected).abs();
            assert!(
                off <= 5.0 * (expected * 0.9).sqrt(),
                "{lost} of {sent} lost on uplink {port}"
            );
        }
        assert!(uplinks[1].len() > 1_000, "{} packets", uplinks[1].len());
    }
}

#[test]
fn counts_are_exact_under_tail_drops_on_any_number_of_lcores() {
    for lcores in 1..=3 {
        let mut leaf = Leaf::new(&format!("x{lcores}"), &spec(6_000), lcores);
        flows(&mut leaf, 24);
        // All copies of the last closes are out.
        leaf.rounds(3_000);
        let (whole, uplinks) = leaf.end();
        let counters = &whole.counters;
        assert!(
            counters.dropped(DropReason::TailDrop) > 500,
            "{lcores} lcores: nothing was too much: {counters:?}"
        );
        for reason in [
            DropReason::HandOffFull,
            DropReason::SpreadFull,
            DropReason::QueueMemory,
        ] {
            assert_eq!(
                counters.dropped(reason),
                0,
                "{lcores} lcores: {}",
                reason.name()
            );
        }
        let mut epochs = Vec::new();
        let mut marked = 0;
        for (address, seen) in windows(&uplinks) {
            let Some((epoch, first)) = seen.told.first() else {
                assert_eq!(seen.marked, [0; SPINES], "{address:x} was never closed");
                continue;
            };
            epochs.push(*epoch);
            marked += seen.marked.iter().sum::<u32>();
            assert!(
                seen.told
                    .iter()
                    .all(|told| told == &(*epoch, first.clone()))
            );
            assert_eq!(
                first[..],
                seen.marked,
                "{lcores} lcores: S_x towards {address:x}"
            );
        }
        epochs.sort_unstable();
        let expected: Vec<u32> = (1..=epochs.len() as u32).collect();
        assert_eq!(epochs, expected, "{lcores} lcores: epochs are unique");
        assert!(
            epochs.len() >= 12,
            "{lcores} lcores: {} windows",
            epochs.len()
        );
        assert_eq!(counters.noted(Note::Marked), u64::from(marked));
    }
}

#[test]
fn nothing_is_lost_between_lcores() {
    for lcores in 1..=3 {
        let mut leaf = Leaf::new(&format!("n{lcores}"), &spec(1 << 20), lcores);
        for psn in 0..500 {
            for port in 0..HOSTS {
                let host = (psn % 50) as u8;
                leaf.send(port, &data(port, (host + 1, host + 1), 26, psn));
            }
            leaf.round();
        }
        leaf.rounds(500);
        let (whole, uplinks) = leaf.end();
        assert_eq!(whole.counters.dropped_total(), 0, "{lcores} lcores");
        let out: usize = uplinks.iter().map(Vec::len).sum();
        assert_eq!(out, 1000, "{lcores} lcores");
        // Instances choose by depths that the owners publish: no uplink is left out or piled on.
        for frames in &uplinks {
            assert!(
                (200..300).contains(&frames.len()),
                "{lcores} lcores: {}",
                frames.len()
            );
        }
    }
}

#[test]
fn priorities_are_strict_across_lcores() {
    let mut leaf = Leaf::new("s", &spec(1 << 20), 3);
    // A backlog of the lowest priority on every uplink, from both host ports.
    for psn in 0..200 {
        for port in 0..HOSTS {
            let host = (psn % 60) as u8;
            leaf.send(port, &data(port, (host + 1, host + 1), 0, psn));
        }
    }
    leaf.rounds(6);
    let before: usize = leaf.uplinks.iter().map(Vec::len).sum();
    let high: Vec<u8> = (100..140).collect();
    for &host in &high {
        leaf.send(
            usize::from(host) % HOSTS,
            &data(usize::from(host) % HOSTS, (host, host), 46, 0),
        );
    }
    // Two rounds until all are with the owners, and some twelve to send ten each at 1 Gbit/s.
    leaf.rounds(16);
    let dscp = |frame: &Vec<u8>| frame[15] >> 2;
    let of_high: usize = leaf
        .uplinks
        .iter()
        .flatten()
        .filter(|f| dscp(f) == 46)
        .count();
    assert_eq!(
        of_high,
        high.len(),
        "all overtook the backlog of {}",
        400 - before
    );
    for frames in &leaf.uplinks {
        // From the first of them on, nothing low goes until they are through.
        let first = frames
            .iter()
            .position(|f| dscp(f) == 46)
            .expect("each uplink has some");
        let last = frames
            .iter()
            .rposition(|f| dscp(f) == 46)
            .expect("as above");
        let low = frames[first..last].iter().filter(|f| dscp(f) == 0).count();
        assert!(
            low <= 2,
            "{low} low ones went in between: they came two rounds apart"
        );
    }
    assert!(leaf.whole().counters.queued > 0, "a backlog is left");
    leaf.rounds(500);
    leaf.end();
}

#[test]
fn an_uplink_leaves_the_spray_within_one_round_of_its_link() {
    for lcores in 1..=3 {
        let mut leaf = Leaf::new(&format!("l{lcores}"), &spec(1 << 20), lcores);
        leaf.rounds(10);
        leaf.links.set(HOSTS + 1, false);
        for host in 1..=100 {
            leaf.send(
                usize::from(host) % HOSTS,
                &data(usize::from(host) % HOSTS, (host, host), 26, 0),
            );
        }
        // The round that takes them in is the first after the link went down.
        leaf.rounds(60);
        let of: Vec<usize> = leaf.uplinks.iter().map(Vec::len).collect();
        assert_eq!(
            (of[1], of.iter().sum::<usize>()),
            (0, 100),
            "{lcores} lcores: {of:?}"
        );
        let (whole, _) = leaf.end();
        assert_eq!(whole.counters.dropped_total(), 0);
    }
}

/// Goal: what an lcore that stands still cannot take is refused by name, before the switch has it
/// (`spread-full`) or before a packet counts as sent (`hand-off-full`); all the rest gets through.
#[test]
fn an_lcore_that_stands_still_is_refused_to_by_name() {
    let mut leaf = Leaf::new("f", &spec(4 << 20), 2);
    // One uplink is left, and it is lcore 1's. Half of the frames belong to lcore 1 as well. A ring
    // holds 1,024, and at most 512 wait for one.
    for spine in [0, 2, 3] {
        leaf.links.set(HOSTS + spine, false);
    }
    for number in 0..6_000u32 {
        let host = (number % 50) as u8 + 1;
        leaf.send(0, &data(0, (host, host), 26, number / 50));
        if number % 32 == 31 {
            leaf.now = leaf.now.plus(STEP_NS);
            leaf.workers[0].round(leaf.now);
            leaf.workers[0].tick(leaf.now);
            leaf.collect();
        }
    }
    for reason in [DropReason::SpreadFull, DropReason::HandOffFull] {
        let dropped = leaf.whole().counters.dropped(reason);
        assert!(dropped > 100, "{}: {dropped}", reason.name());
    }
    leaf.rounds(4_000);
    let out: usize = leaf.uplinks.iter().map(Vec::len).sum();
    let (whole, _) = leaf.end();
    let dropped = whole.counters.dropped_total();
    assert_eq!(out as u64 + dropped, 6_000);
}

#[test]
fn three_threads_at_once_account_for_every_packet() {
    let mut leaf = Leaf::new("t", &spec(20_000), 3);
    let workers = std::mem::take(&mut leaf.workers);
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let clock = dpdk::Clock::calibrated();
    let threads: Vec<_> = workers
        .into_iter()
        .map(|mut worker| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let now = Nanos(clock.now_ns());
                    if worker.round(now) == 0 {
                        std::thread::yield_now();
                    }
                    worker.tick(now);
                }
                worker
            })
        })
        .collect();
    for number in 0..4_000u32 {
        let host = (number / 40) as u8 + 1;
        let port = usize::from(host) % HOSTS;
        while leaf.into[port].len() > 400 || leaf.pool.available() < 200 {
            leaf.collect();
            std::thread::yield_now();
        }
        if number % 40 == 0 {
            leaf.send(port, &announcement(port, (host, host), 40));
        }
        leaf.send(port, &data(port, (host, host), 26, number % 40));
    }
    // Until nothing has come for a while.
    let mut quiet = 0;
    while quiet < 50 {
        let before: usize = leaf.uplinks.iter().map(Vec::len).sum();
        leaf.collect();
        let is_quiet = before == leaf.uplinks.iter().map(Vec::len).sum::<usize>();
        quiet = if is_quiet { quiet + 1 } else { 0 };
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    leaf.workers = threads
        .into_iter()
        .map(|t| t.join().expect("no panic"))
        .collect();
    leaf.now = Nanos(clock.now_ns());
    let (whole, uplinks) = leaf.end();
    assert!(
        whole.counters.noted(Note::WindowsOpened) > 3,
        "{:?}",
        whole.counters
    );
    for (address, seen) in windows(&uplinks) {
        for (_, told) in &seen.told {
            assert_eq!(told[..], seen.marked, "S_x towards {address:x}");
        }
    }
}

//! Ports that share a device by VLAN: large frames go through in one buffer, frames of no port and
//! packets that cannot get their tag are counted, and a link that goes down is out of the spray.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent::capture::filter::Filter;
use agent::capture::tap::{Event, Tap, Wanted};
use agent::control::Shared;
use config::SwitchSpec;
use dpdk::{
    Burst, Mbuf, Mempool, Port, PortConfig, RingReceiver, RingSender, RxQueue, StartedPort,
    test_support,
};
use lcore::end::{Rx, Tx};
use lcore::hub::Hub;
use lcore::links_up::LinkWord;
use lcore::shares::Shares;
use lcore::trunk::{Dealer, Inlet, Lane, Outlet, TrunkCounters};
use lcore::worker::{Setup, Worker};
use packet::bth::{self, BthFields, Opcode};
use packet::ip::{self, Address, IpFields};
use packet::{MacAddr, Psn, Qpn, ROCE_PORT, be, ethernet};
use pipeline::{DropReason, Nanos, PortId, Switch};

/// Spines, each at the end of an uplink.
const SPINES: u16 = 2;
/// The tag of the host's port; those of the uplinks follow.
const VLAN: u16 = 100;
/// Path MTU of RoCE: the payload of its largest packets (IBTA 9.3.1).
const PATH_MTU: usize = 4096;
const STEP_NS: u64 = 10_000;

fn mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8])
}

const HOST: MacAddr = MacAddr([2, 9, 0, 0, 0, 1]);

fn spec() -> SwitchSpec {
    let mut text = format!(
        "name = \"leaf0\"\nrole = \"leaf0\"\n[fabric]\nleaves = 2\nspines = {SPINES}\nlink_state = \"off\"\n\
         [queue]\nlimit = \"1MiB\"\npackets = 1024\n[gateway]\naddresses = [\"10.0.0.254\"]\n\
         [[port]]\nname = \"h\"\nkind = \"host\"\nmac = \"{}\"\nrate = \"10Gbps\"\nmtu = 9000\n\
         hosts = [{{ address = \"10.0.0.1\", mac = \"{HOST}\" }}]\n",
        mac(0)
    );
    for spine in 0..SPINES {
        text += &format!(
            "[[port]]\nname = \"u{spine}\"\nkind = \"uplink\"\npeer = \"spine{spine}\"\nmac = \"{}\"\n\
             peer_mac = \"02:01:00:00:00:{spine:02x}\"\nrate = \"10Gbps\"\n",
            mac(1 + spine)
        );
    }
    text += "[[route]]\nprefix = \"10.1.0.0/16\"\nleaf = \"leaf1\"\n";
    SwitchSpec::parse(std::path::Path::new("leaf0.toml"), &text).expect("a right file")
}

/// A data packet of `payload` bytes, with the tag of a link.
fn tagged(vlan: Option<u16>, payload: usize) -> Vec<u8> {
    let udp_payload = bth::HEADER_LEN + payload + bth::ICRC_LEN;
    let mut frame = vec![0u8; 42 + udp_payload];
    ethernet::set_addresses(&mut frame, mac(0), HOST);
    be::put16(&mut frame, 12, ethernet::IPV4);
    let fields = IpFields {
        source: Address::v4(0x0a00_0001),
        destination: Address::v4(0x0a01_0001),
        traffic_class: 0,
        ttl: 64,
        payload_len: (8 + udp_payload) as u16,
    };
    ip::write(&mut frame[14..], &fields);
    ip::write_udp(&mut frame[34..], 0xc123, ROCE_PORT, udp_payload as u16);
    let fields = BthFields {
        opcode: Opcode::WRITE_MIDDLE,
        destination_qp: Qpn(7),
        psn: Psn::new(1),
        ack_req: false,
        pad: 0,
    };
    bth::write(&mut frame[42..], &fields);
    for (at, byte) in frame[54..].iter_mut().enumerate() {
        *byte = at as u8;
    }
    if let Some(vlan) = vlan {
        let [high, low] = vlan.to_be_bytes();
        frame.splice(12..12, [0x81, 0, high, low]);
    }
    frame
}

/// A leaf whose uplinks share a device, with its host's port or without.
struct Trunk {
    worker: Worker,
    /// To where the host is.
    into: RingSender,
    /// From the device of the uplinks.
    out: RingReceiver,
    /// From the device of the host, where it has its own.
    host: Option<RingReceiver>,
    counters: Arc<Vec<TrunkCounters>>,
    shared: Shared,
    pool: Mempool,
    now: Nanos,
}

impl Trunk {
    /// All on one device; `name` tells it from others.
    fn new(name: &str) -> Trunk {
        Trunk::with(name, false)
    }

    /// The host `apart` on a device without tags, number 0; the uplinks are then on number 1.
    fn with(name: &str, apart: bool) -> Trunk {
        let eal = test_support::eal();
        let ring =
            |kind: &str| dpdk::ring(eal, &format!("{name}{kind}"), 512, None).expect("a ring");
        let ((into, rx), (tx, out)) = (ring("i"), ring("o"));
        let spec = spec();
        let ports = spec.config.ports.len();
        let lanes: Vec<Lane> = (0..ports as u16)
            .map(|port| Lane {
                switch: 0,
                port: PortId(port),
                vlan: (port > 0 || !apart).then_some(VLAN + port),
            })
            .collect();
        let (of_host, of_uplinks) = if apart {
            lanes.split_at(1)
        } else {
            (&lanes[..], &lanes[..])
        };
        let outlet = |tx, lanes: &[Lane], device| {
            let shares = Shares::new(lanes.len(), None, 0, 24);
            Outlet::new(tx, lanes, shares, device)
        };
        let device = usize::from(apart);
        let mut outlets = vec![outlet(Tx::Ring(tx), of_uplinks, device)];
        let mut host = None;
        if apart {
            let (tx, from_host_port) = ring("h");
            outlets.push(outlet(Tx::Ring(tx), of_host, 0));
            host = Some(from_host_port);
        }
        let pool = test_support::pool(&format!("{name}p"), 511, 9216);
        let shared = Shared::on(1, [ports]);
        let counters: Arc<Vec<_>> = Arc::new((0..2).map(|_| TrunkCounters::default()).collect());
        let worker = Worker::new(Setup {
            lcore: (0, 1),
            switches: vec![Switch::new(&spec.config)],
            owners: vec![
                lanes
                    .iter()
                    .map(|lane| (0, device * usize::from(lane.port.0 > 0)))
                    .collect(),
            ],
            inlets: vec![Inlet {
                rx: Rx::Ring(rx),
                dealer: Dealer::new(of_host),
                device: 0,
                is_spread: false,
            }],
            outlets,
            trunks: Arc::clone(&counters),
            rings: vec![None],
            pool: pool.clone(),
            seam: Arc::clone(&shared.seam),
            hub: Arc::new(Hub::new([ports].into_iter(), 1)),
            changes: Arc::default(),
            links: Arc::new(LinkWord::new(2)),
        });
        Trunk {
            worker,
            into,
            out,
            host,
            counters,
            shared,
            pool,
            now: Nanos(0),
        }
    }

    fn mbuf(&self, frame: &[u8]) -> Mbuf {
        let mut mbuf = self.pool.alloc().expect("the pool is large enough");
        mbuf.write(frame).expect("the buffer is large enough");
        mbuf
    }

    fn send(&mut self, mbuf: Mbuf) {
        self.into.send(mbuf).expect("the ring is long enough");
    }

    /// Some rounds; what comes out, by the tag it has.
    fn rounds(&mut self, count: usize) -> Vec<(u16, Mbuf)> {
        let mut burst = Burst::new();
        let mut all = Vec::new();
        for _ in 0..count {
            self.now = self.now.plus(STEP_NS);
            self.worker.round(self.now);
            self.worker.tick(self.now);
            self.out.receive_burst(&mut burst);
            for mbuf in burst.drain() {
                all.push((mbuf.vlan().expect("all that leaves is tagged"), mbuf));
            }
        }
        all
    }

    fn switch(&self) -> &Switch<lcore::packet::Packet> {
        &self.worker.parts()[0].switch
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.switch().counters().dropped(reason)
    }

    fn end(mut self) {
        assert!(self.switch().is_conserved());
        self.worker.drain(self.now);
        let pool = self.pool;
        drop((self.worker, self.into, self.out, self.host));
        assert_eq!(pool.in_use(), 0, "a buffer has leaked");
    }
}

/// Goal: packets of path MTU 4096 go through in one buffer, every byte of their payload as it came;
/// what is longer than the uplinks' MTU is `oversize`, and its sender is told the MTU.
#[test]
fn jumbo_frames_pass_in_one_buffer_and_longer_ones_are_told_the_mtu() {
    let mut trunk = Trunk::new("j");
    let whole = tagged(Some(VLAN), PATH_MTU);
    for _ in 0..40 {
        let mbuf = trunk.mbuf(&whole);
        trunk.send(mbuf);
    }
    let out = trunk.rounds(40);
    assert_eq!(out.len(), 40);
    for (vlan, mbuf) in &out {
        assert!((VLAN + 1..=VLAN + SPINES).contains(vlan), "{vlan}");
        assert!(mbuf.is_single_segment() && mbuf.len() == whole.len());
        assert_eq!(mbuf.data()[58..], whole[58..], "the payload is as it came");
    }
    drop(out);
    assert_eq!(trunk.switch().counters().dropped_total(), 0);
    // 4200 bytes of IP packet are the uplinks' MTU; two tags may be beside it.
    let long = trunk.mbuf(&tagged(Some(VLAN), PATH_MTU + 256));
    trunk.send(long);
    let out = trunk.rounds(10);
    assert_eq!(trunk.dropped(DropReason::Oversize), 1);
    let [(vlan, answer)] = &out[..] else {
        panic!("{} answers", out.len());
    };
    assert_eq!(*vlan, VLAN, "it goes to the host");
    let frame = answer.data();
    assert_eq!(frame[..6], HOST.0);
    assert_eq!(frame[4 + 14 + 9], ip::ICMP, "behind its tag");
    // Destination unreachable, fragmentation needed, and the MTU of the next hop (RFC 1191, 4).
    let icmp = &frame[4 + 34..];
    assert_eq!((icmp[0], icmp[1], be::get16(icmp, 6)), (3, 4, 4200));
    drop(out);
    trunk.end();
}

/// Goal: a tap has what ports receive, without the tag of the link, what they send, and what ends with
/// its reason and port, byte for byte; when it is over the lcore lets go of it.
#[test]
fn a_tap_has_what_comes_leaves_and_ends() {
    let mut trunk = Trunk::new("t");
    let wanted = Wanted {
        filter: Filter::default(),
        events: [true; 3],
        sample: 1,
        snaplen: 9000,
    };
    // The host's port, two uplinks, and what has no port.
    let tap = Arc::new(Tap::new(1, &[vec![true; 4]], wanted));
    let taps = trunk.shared.seam.taps_of(0);
    assert!(taps.push(Arc::clone(&tap)).is_ok());
    trunk.rounds(1);
    let mut no_route = tagged(Some(VLAN), 100);
    no_route[4 + 14 + 16] = 192;
    ip_checksum(&mut no_route[18..38]);
    for frame in [
        tagged(Some(VLAN), 100),
        no_route.clone(),
        tagged(Some(99), 100),
    ] {
        let mbuf = trunk.mbuf(&frame);
        trunk.send(mbuf);
    }
    let out = trunk.rounds(5);
    let mut seen = Vec::new();
    tap.drain(usize::MAX, |slot| {
        assert_eq!(slot.wire_len as usize, slot.frame().len());
        seen.push((slot.event, slot.interface, slot.frame().to_vec()));
    });
    // A frame of no port is none of a switch; ICMP errors leave over the host's port.
    let (event, interface, frame) = &seen[0];
    assert_eq!((*event, *interface), (Event::In, 0));
    assert_eq!(*frame, tagged(None, 100));
    let dropped = seen
        .iter()
        .find(|(event, ..)| *event == Event::Dropped("no-route"));
    let (_, interface, frame) = dropped.expect("it has no route");
    assert_eq!(*interface, 0, "the port that it came to");
    assert_eq!(frame[30..34], [192, 1, 0, 1]);
    let left: Vec<_> = seen
        .iter()
        .filter(|(event, ..)| *event == Event::Out)
        .collect();
    assert_eq!(left.len(), out.len(), "{seen:?}");
    for ((vlan, mbuf), (_, interface, frame)) in out.iter().zip(left) {
        assert_eq!(u32::from(*vlan - VLAN), *interface);
        assert_eq!(
            (&mbuf.data()[..12], &mbuf.data()[16..]),
            (&frame[..12], &frame[12..])
        );
    }
    assert_eq!(tap.missed(), 0);
    tap.end();
    trunk.rounds(1);
    assert_eq!(Arc::strong_count(&tap), 1, "the lcore has let go of it");
    drop(out);
    trunk.end();
}

/// Writes the checksum of an IPv4 header without options.
fn ip_checksum(header: &mut [u8]) {
    be::put16(header, ip::v4::CHECKSUM, 0);
    let sum = ip::v4_checksum(header);
    be::put16(header, ip::v4::CHECKSUM, sum);
}

/// Goal: frames with no tag, another link's, or one that nobody has are counted at the device; no
/// switch has them.
#[test]
fn frames_of_no_port_are_counted_at_their_device() {
    let mut trunk = Trunk::new("w");
    for (vlan, count) in [
        (None, 3),
        (Some(99), 4),
        (Some(VLAN + 3), 1),
        (Some(VLAN), 5),
    ] {
        for _ in 0..count {
            let mbuf = trunk.mbuf(&tagged(vlan, 100));
            trunk.send(mbuf);
        }
    }
    let out = trunk.rounds(10).len();
    let counters = &trunk.counters[0];
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((read(&counters.no_tag), read(&counters.wrong_tag)), (3, 5));
    assert_eq!((read(&counters.rx), read(&counters.tx)), (13, 5));
    assert_eq!((out, trunk.switch().counters().rx), (5, 5));
    trunk.end();
}

/// Goal: a packet whose buffer has no room for the tag of its link is counted at the device, and its
/// buffer is back.
#[test]
fn a_packet_without_headroom_is_counted_at_its_device() {
    let mut trunk = Trunk::with("r", true);
    let frame = tagged(None, 100);
    let mut mbuf = trunk.mbuf(&frame);
    let headroom = mbuf.headroom();
    mbuf.prepend(headroom).expect("as much as there is");
    mbuf.write(&frame).expect("the buffer is large enough");
    trunk.send(mbuf);
    let sound = trunk.mbuf(&frame);
    trunk.send(sound);
    let out = trunk.rounds(10);
    let counters = &trunk.counters[1];
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((out.len(), read(&counters.no_headroom)), (1, 1));
    assert_eq!(read(&counters.tx), 1);
    drop(out);
    trunk.end();
}

/// Goal: a link that is taken down through its port leaves the spray before the next packet, and is
/// back in it some time after it is up again, by what the driver says of it.
#[test]
fn a_link_that_goes_down_through_its_port_leaves_the_spray() {
    let eal = test_support::eal();
    let pool = test_support::pool("dp", 1023, 2048);
    let spec = spec();
    let ports = spec.config.ports.len();
    // What is sent on such a device comes back on it.
    let start = |port: usize| {
        let name = format!("net_ring_spray{port}");
        eal.attach_vdev(&name).expect("a device");
        let port = Port::by_name(eal, &name).expect("it is there");
        let mut started = port
            .start(PortConfig::new(pool.clone()))
            .expect("it starts");
        let queues = started.rx.pop().zip(started.tx.pop());
        (started.port, queues.expect("a queue each way"))
    };
    let lane = |port: usize| {
        [Lane {
            switch: 0,
            port: PortId(port as u16),
            vlan: None,
        }]
    };
    let (host_port, (host_rx, mut from_host)) = start(0);
    let inlet = Inlet {
        rx: Rx::Device(host_rx),
        dealer: Dealer::new(&lane(0)),
        device: 0,
        is_spread: false,
    };
    let (mut outlets, mut uplinks, mut started) = (Vec::new(), Vec::new(), vec![host_port]);
    for port in 1..ports {
        let (device, (rx, tx)) = start(port);
        let shares = Shares::new(1, None, 0, 24);
        outlets.push(Outlet::new(Tx::Device(tx), &lane(port), shares, port));
        uplinks.push(rx);
        started.push(device);
    }
    let links = Arc::new(LinkWord::new(ports));
    let mut worker = Worker::new(Setup {
        lcore: (0, 1),
        switches: vec![Switch::new(&spec.config)],
        owners: vec![(0..ports).map(|port| (0, port)).collect()],
        inlets: vec![inlet],
        outlets,
        trunks: Arc::new((0..ports).map(|_| TrunkCounters::default()).collect()),
        rings: vec![None],
        pool: pool.clone(),
        seam: Arc::clone(&Shared::on(1, [ports]).seam),
        hub: Arc::new(Hub::new([ports].into_iter(), 1)),
        changes: Arc::default(),
        links: Arc::clone(&links),
    });
    let mut now = Nanos(0);
    let mut send = |started: &[StartedPort], wait_ns: u64| {
        for (device, port) in started.iter().enumerate() {
            links.set(device, port.link().expect("it tells").up);
        }
        let mut burst = Burst::new();
        for _ in 0..32 {
            let mut mbuf = pool.alloc().expect("the pool is large enough");
            mbuf.write(&tagged(None, 100)).expect("it is large enough");
            let refused = burst.push(mbuf);
            assert!(refused.is_ok());
        }
        // Time passes, in which a link is held that came back.
        now = now.plus(wait_ns);
        worker.round(now);
        worker.tick(now);
        assert_eq!(from_host.send(&mut burst), 32);
        for _ in 0..20 {
            now = now.plus(STEP_NS);
            worker.round(now);
            worker.tick(now);
        }
        let mut out = Burst::new();
        let count = |rx: &mut RxQueue| {
            out.clear();
            rx.receive(&mut out)
        };
        uplinks.iter_mut().map(count).collect::<Vec<usize>>()
    };
    let before = send(&started, 0);
    assert!(before[0] > 4 && before[1] > 4, "{before:?}");
    started[2].set_link(false).expect("net_ring can");
    assert_eq!(send(&started, 0), [32, 0]);
    started[2].set_link(true).expect("net_ring can");
    assert_eq!(send(&started, 0), [32, 0], "it is held");
    let after = send(&started, 200_000_000);
    assert!(after[0] > 4 && after[1] > 4, "{after:?}");
    let switch = &worker.parts()[0].switch;
    assert!(switch.is_conserved());
    assert_eq!(switch.counters().dropped_total(), 0);
}

//! All switches of a 2x2 fabric in one process on some lcores, as `spraycheck switch` builds them,
//! with rings in the place of devices: the test is the wires and the hosts.

use std::sync::Arc;

use agent::control::Shared;
use agent::seam::{FromSwitch, Order, ToPart};
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
use packet::message::{self, Header, MessageKind};
use packet::{MacAddr, Psn, Qpn, ROCE_PORT, be, ethernet};
use pipeline::split::{self, Whole};
use pipeline::{Change, Nanos, PortId, Switch, SwitchConfig};

pub(crate) const LEAVES: usize = 2;
pub(crate) const SPINES: usize = 2;
/// Hosts of a leaf, all behind its port 0.
pub(crate) const HOSTS: u8 = 16;
const SWITCHES: usize = LEAVES + SPINES;
const STEP_NS: u64 = 10_000;
const PAYLOAD: usize = 900;
const DSCP: u8 = 26;

fn mac(switch: usize, port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, switch as u8, port as u8])
}

fn host_mac(leaf: usize, host: u8) -> MacAddr {
    MacAddr([2, 9, 0, 0, leaf as u8, host])
}

/// Host number `host` of a leaf.
pub(crate) fn address(leaf: usize, host: u8) -> Address {
    Address::v4(0x0a00_0001 + ((leaf as u32) << 16) + u32::from(host))
}

fn specs() -> Vec<SwitchSpec> {
    let switch = |index: usize| {
        let name = match index.checked_sub(LEAVES) {
            None => format!("leaf{index}"),
            Some(spine) => format!("spine{spine}"),
        };
        let mut text = format!(
            "name = \"{name}\"\nrole = \"{name}\"\n[fabric]\nleaves = {LEAVES}\nspines = {SPINES}\n\
             link_state = \"off\"\n[queue]\npackets = 1024\nlimit = \"128KiB\"\n"
        );
        let link = |text: &mut String,
                    port: usize,
                    kind: &str,
                    peer: String,
                    to: (usize, usize)| {
            *text += &format!(
                "[[port]]\nname = \"p{port}\"\nkind = \"{kind}\"\npeer = \"{peer}\"\nmac = \"{}\"\n\
                 peer_mac = \"{}\"\nrate = \"10Gbps\"\n",
                mac(index, port),
                mac(to.0, to.1)
            );
        };
        if index < LEAVES {
            let hosts: Vec<String> = (0..HOSTS)
                .map(|host| {
                    let (address, mac) = (address(index, host), host_mac(index, host));
                    format!("{{ address = \"{address}\", mac = \"{mac}\" }}")
                })
                .collect();
            text += &format!(
                "[[port]]\nname = \"h\"\nkind = \"host\"\nmac = \"{}\"\nrate = \"100Gbps\"\nhosts = [{}]\n",
                mac(index, 0),
                hosts.join(", ")
            );
            for spine in 0..SPINES {
                let peer = format!("spine{spine}");
                link(
                    &mut text,
                    1 + spine,
                    "uplink",
                    peer,
                    (LEAVES + spine, index),
                );
            }
        } else {
            for leaf in 0..LEAVES {
                let to = (leaf, 1 + index - LEAVES);
                link(&mut text, leaf, "downlink", format!("leaf{leaf}"), to);
            }
        }
        for leaf in (0..LEAVES).filter(|&leaf| leaf != index) {
            text += &format!("[[route]]\nprefix = \"10.{leaf}.0.0/16\"\nleaf = \"leaf{leaf}\"\n");
        }
        let path = format!("{name}.toml");
        SwitchSpec::parse(std::path::Path::new(&path), &text).expect("a right file")
    };
    (0..SWITCHES).map(switch).collect()
}

/// Where the wire of a port ends; host ports have none.
fn far_end(switch: usize, port: usize) -> Option<(usize, usize)> {
    match (switch.checked_sub(LEAVES), port.checked_sub(1)) {
        (None, None) => None,
        (None, Some(spine)) => Some((LEAVES + spine, switch)),
        (Some(spine), _) => Some((port, 1 + spine)),
    }
}

/// A flow: its leaf and host, those it goes to, and its QP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Flow {
    pub(crate) from: (usize, u8),
    pub(crate) to: (usize, u8),
    pub(crate) qpn: u32,
}

impl Flow {
    fn frame(&self, to_port: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0u8; 42 + payload.len()];
        let gateway = mac(self.from.0, 0);
        ethernet::set_addresses(&mut frame, gateway, host_mac(self.from.0, self.from.1));
        be::put16(&mut frame, 12, ethernet::IPV4);
        let fields = IpFields {
            source: address(self.from.0, self.from.1),
            destination: address(self.to.0, self.to.1),
            traffic_class: DSCP << 2,
            ttl: 64,
            payload_len: (8 + payload.len()) as u16,
        };
        ip::write(&mut frame[14..], &fields);
        ip::write_udp(&mut frame[34..], 0xc123, to_port, payload.len() as u16);
        frame[42..].copy_from_slice(payload);
        frame
    }

    /// Its packet of a sequence number.
    pub(crate) fn data(&self, psn: u32) -> Vec<u8> {
        let mut payload = vec![0u8; bth::HEADER_LEN + PAYLOAD + 4];
        let fields = BthFields {
            opcode: Opcode::WRITE_MIDDLE,
            destination_qp: Qpn(self.qpn),
            psn: Psn::new(psn),
            ack_req: false,
            pad: 0,
        };
        bth::write(&mut payload, &fields);
        self.frame(ROCE_PORT, &payload)
    }

    /// What its host says of it.
    pub(crate) fn announcement(&self, packets: u64) -> Vec<u8> {
        let header = Header {
            kind: MessageKind::Open,
            flags: 0,
            destination_qp: Qpn(self.qpn),
            first_psn: Psn::new(0),
            mtu_bytes: PAYLOAD as u32,
            packets,
            bytes: 0,
            flow_id: u64::from(self.qpn),
            fanout: 0,
            repetition: 0,
            epoch: 0,
        };
        let mut payload = vec![0u8; message::LEN_MAX];
        let len = message::write(&mut payload, &header, |_| false, |_| 0);
        self.frame(message::DEFAULT_PORT, &payload[..len])
    }
}

/// Whether a frame on a link is data that is measured.
pub(crate) fn is_marked(frame: &[u8]) -> bool {
    be::get16(frame, 36) == ROCE_PORT && frame[42 + bth::RESV8A] & bth::MARK != 0
}

/// The process and its wires.
pub(crate) struct Process {
    workers: Vec<Worker>,
    into: Vec<Vec<RingSender>>,
    out: Vec<Vec<RingReceiver>>,
    pool: Mempool,
    shared: Shared,
    now: Nanos,
    lcores: usize,
    specs: Vec<SwitchSpec>,
    /// Frames that hosts have got.
    pub(crate) arrived: u64,
    lost: u64,
    sent: u64,
}

impl Process {
    /// On so many lcores; `name` tells it from others of this test.
    pub(crate) fn new(name: &str, lcores: usize) -> Process {
        let eal = test_support::eal();
        let pool = test_support::pool(&format!("{name}p"), 4095, 2048);
        let specs = specs();
        let ports: Vec<usize> = specs.iter().map(|spec| spec.config.ports.len()).collect();
        let (mut into, mut out) = (Vec::new(), Vec::new());
        let mut inlets: Vec<Vec<Inlet>> = (0..lcores).map(|_| Vec::new()).collect();
        let mut outlets: Vec<Vec<Outlet>> = (0..lcores).map(|_| Vec::new()).collect();
        let mut owners = Vec::new();
        let mut devices = 0;
        for (switch, &count) in ports.iter().enumerate() {
            let (mut into_switch, mut out_of_switch) = (Vec::new(), Vec::new());
            let mut of_ports = Vec::new();
            for port in 0..count {
                let ring = |kind: &str| {
                    let name = format!("{name}{kind}{switch}-{port}");
                    dpdk::ring(eal, &name, 1024, None).expect("a ring")
                };
                let ((to_switch, rx), (tx, from_switch)) = (ring("i"), ring("o"));
                let lane = [Lane {
                    switch,
                    port: PortId(port as u16),
                    vlan: None,
                }];
                let lcore = (switch + port) % lcores;
                inlets[lcore].push(Inlet {
                    rx: Rx::Ring(rx),
                    dealer: Dealer::new(&lane),
                    device: devices,
                    is_spread: false,
                });
                let shares = Shares::new(1, None, 0, 24);
                outlets[lcore].push(Outlet::new(Tx::Ring(tx), &lane, shares, devices));
                of_ports.push((lcore, devices));
                into_switch.push(to_switch);
                out_of_switch.push(from_switch);
                devices += 1;
            }
            into.push(into_switch);
            out.push(out_of_switch);
            owners.push(of_ports);
        }
        let shared = Shared::on(lcores, ports.iter().copied());
        let hub = Arc::new(Hub::new(ports.iter().copied(), lcores));
        let trunks = Arc::new((0..devices).map(|_| TrunkCounters::default()).collect());
        let links = Arc::new(LinkWord::new(devices));
        let rings = build::rings(eal, &format!("{name}r"), lcores).expect("rings");
        let parts = inlets.into_iter().zip(outlets).zip(rings).enumerate();
        let workers = parts.map(|(lcore, ((inlets, outlets), rings))| {
            let switches = specs.iter().map(|spec| {
                let config = build::config_of(&spec.config, lcore, lcores);
                Switch::new(&config)
            });
            Worker::new(Setup {
                lcore: (lcore, lcores),
                switches: switches.collect(),
                owners: owners.clone(),
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
        Process {
            workers: workers.collect(),
            into,
            out,
            pool,
            shared,
            now: Nanos(0),
            lcores,
            specs,
            arrived: 0,
            lost: 0,
            sent: 0,
        }
    }

    /// Gives a switch another configuration, on each of its lcores, as control does.
    pub(crate) fn change(&mut self, switch: usize, edit: impl Fn(&mut SwitchConfig)) {
        let old = self.specs[switch].config.clone();
        edit(&mut self.specs[switch].config);
        for lcore in 0..self.lcores {
            let of = |config| build::config_of(config, lcore, self.lcores);
            let change = Change::between(&of(&old), &of(&self.specs[switch].config));
            let part = (switch * self.lcores + lcore) as u16;
            let order = Order::Change(Box::new(change.expect("they differ")));
            let orders = self.shared.seam.orders_of(usize::from(part));
            orders
                .push(ToPart { part, order })
                .expect("the ring has room");
        }
    }

    /// Changes that have come back since this was asked last.
    pub(crate) fn changed(&self) -> usize {
        std::iter::from_fn(|| self.shared.seam.done.pop()).count()
    }

    /// Frames that hosts have sent, and that wires have lost.
    pub(crate) fn fate(&self) -> (u64, u64) {
        (self.sent, self.lost)
    }

    /// A host of a leaf sends a frame.
    pub(crate) fn send(&mut self, leaf: usize, frame: &[u8]) {
        let mut mbuf = self.pool.alloc().expect("the pool is large enough");
        mbuf.write(frame).expect("the buffer is large enough");
        self.into[leaf][0]
            .send(mbuf)
            .expect("the ring is long enough");
        self.sent += 1;
    }

    /// A round of every lcore and of every wire: `passes` is asked for each frame, with the name of
    /// its link. Returns what the switches have reported, and by which switch.
    pub(crate) fn round(
        &mut self,
        mut passes: impl FnMut(&str, &[u8]) -> bool,
    ) -> Vec<(usize, FromSwitch)> {
        self.now = self.now.plus(STEP_NS);
        for worker in &mut self.workers {
            worker.round(self.now);
            worker.tick(self.now);
        }
        let mut burst = Burst::new();
        for (switch, rings) in self.out.iter_mut().enumerate() {
            for (port, ring) in rings.iter_mut().enumerate() {
                while ring.receive_burst(&mut burst) > 0 {
                    for mbuf in burst.drain() {
                        let Some((to, to_port)) = far_end(switch, port) else {
                            self.arrived += 1;
                            continue;
                        };
                        let link = match switch.checked_sub(LEAVES) {
                            None => format!("leaf{switch}>spine{}", to - LEAVES),
                            Some(spine) => format!("spine{spine}>leaf{to}"),
                        };
                        if passes(&link, mbuf.data()) {
                            self.into[to][to_port].send(mbuf).expect("as above");
                        } else {
                            self.lost += 1;
                        }
                    }
                }
            }
        }
        let reports = &self.shared.seam.reports;
        let next = || reports.pop();
        std::iter::from_fn(next)
            .map(|report| (usize::from(report.switch) / self.lcores, report))
            .collect()
    }

    /// Ends it: everything is accounted for and every buffer back.
    pub(crate) fn end(self) -> Vec<Whole> {
        let Process {
            workers,
            into,
            out,
            pool,
            now,
            arrived,
            lost,
            sent,
            ..
        } = self;
        let workers = lcore::live::settle(workers.into_iter().map(|w| (w, now)).collect());
        let of =
            |index: usize| split::sum(workers.iter().map(|worker| &worker.parts()[index].switch));
        let all: Vec<Whole> = (0..SWITCHES).map(of).collect();
        for whole in &all {
            assert!(whole.is_conserved(), "{whole:?}");
        }
        let sum = |of: fn(&Whole) -> u64| all.iter().map(of).sum::<u64>();
        // What hosts and switches made has arrived, was lost on a link, or ended in a switch.
        let made = sent + sum(|whole| whole.counters.generated);
        let ended = sum(|whole| whole.counters.consumed + whole.counters.dropped_total());
        drop((workers, into, out));
        assert_eq!(pool.in_use(), 0, "a buffer has leaked");
        assert_eq!(made, arrived + lost + ended, "no packet is unaccounted for");
        all
    }
}

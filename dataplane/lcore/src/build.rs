//! From checked switches to workers: pools, devices, rings, and one instance of each switch per lcore.

use std::path::Path;
use std::sync::Arc;

use agent::control::Shared;
use agent::operate::Place;
use config::pool::{self, Places};
use config::{SharedDevice, SwitchSet};
use dpdk::{Eal, Mempool, Port, PortConfig, RxQueue, StartedPort, TxQueue};
use pipeline::{Peer, PortId, PortKind, Role, Switch, SwitchConfig};

use crate::assign::{Placement, Wish};
use crate::end::{Rx, Tx};
use crate::failure::Failure;
use crate::hub::Hub;
use crate::links_up::LinkWord;
use crate::shares::Shares;
use crate::trunk::{Dealer, Inlet, LANES_MAX, Lane, Outlet, TrunkCounters};
use crate::worker::{RING_PACKETS, Rings, Setup, Worker};

/// Descriptors of each queue: short, so that packets queue where priorities are kept.
const DESCRIPTORS: u16 = 256;
/// Buffers that an lcore keeps at hand.
const POOL_CACHE: u32 = 256;
/// Memory of DPDK itself, of devices and of rings.
const OWN_BYTES: u64 = 24 << 20;
/// Room that DPDK keeps before each packet (RTE_PKTMBUF_HEADROOM).
const HEADROOM_BYTES: u64 = 128;
/// Most switches of a process: their number goes with each packet between lcores.
const SWITCHES_MAX: usize = 256;

/// What a process of switches runs on.
pub struct Built {
    /// One per lcore.
    pub workers: Vec<Worker>,
    /// The devices, for their links.
    pub ports: Vec<StartedPort>,
    /// Packet memory.
    pub pools: Vec<Mempool>,
}

/// Whether switches can run: each port needs a device.
///
/// # Errors
/// Names the port that has none.
pub fn check(set: &SwitchSet) -> Result<(), Failure> {
    for spec in &set.switches {
        let mut ports = spec.port_names.iter().zip(&spec.devices);
        if let Some((name, _)) = ports.find(|(_, device)| device.is_none()) {
            return Err(Failure::usage(format!(
                "port \"{name}\" has no device; add one, like device = \"0000:03:00.0\" or \"net_tap0,iface=tap0\""
            )));
        }
    }
    if set.switches.len() > SWITCHES_MAX {
        return Err(Failure::usage(format!(
            "{} switches are more than the {SWITCHES_MAX} of one process; start another",
            set.switches.len()
        )));
    }
    if let Some(device) = set.devices.iter().find(|d| d.lanes.len() > LANES_MAX) {
        return Err(Failure::usage(format!(
            "{} has {} ports, more than {LANES_MAX}; move some to another device",
            device.device,
            device.lanes.len()
        )));
    }
    Ok(())
}

/// What can be asked of each device.
pub fn wishes(set: &SwitchSet) -> Vec<Wish> {
    let wish = |device: &SharedDevice| Wish {
        lcore: device.lcore,
        rate_bps: device
            .rate
            .map_or_else(|| rates(set, device).sum(), |rate| rate.bits_per_second()),
    };
    set.devices.iter().map(wish).collect()
}

fn rates<'a>(set: &'a SwitchSet, device: &'a SharedDevice) -> impl Iterator<Item = u64> + 'a {
    let lanes = device.lanes.iter();
    lanes.map(|lane| set.switches[lane.switch].config.ports[usize::from(lane.port)].rate_bps)
}

/// Where buffers can be, with so many receive queues per device.
pub fn places(set: &SwitchSet, lcores: u64, rx_queues: u64) -> Places {
    let devices = set.devices.len() as u64;
    let burst = dpdk::BURST_MAX as u64;
    let of_switches: u64 = set.switches.iter().map(pool::queued).sum();
    Places {
        descriptors: devices * (rx_queues + 1) * u64::from(DESCRIPTORS),
        queued: of_switches * lcores,
        // Each lcore works on one, and one waits for each device.
        bursts: burst * (2 * lcores + devices),
        rings: lcores * (lcores - 1) * 2 * u64::from(RING_PACKETS),
        // The main thread and control use none.
        caches: lcores * pool::cached(u64::from(POOL_CACHE)),
    }
}

/// The links that the ports of a process send into.
pub fn link_places(set: &SwitchSet, placement: &Placement) -> Vec<Place> {
    let mut places = Vec::new();
    for (device, (shared, &lcore)) in set.devices.iter().zip(&placement.owners).enumerate() {
        for (lane, of) in shared.lanes.iter().enumerate() {
            let spec = &set.switches[of.switch];
            let port = usize::from(of.port);
            let name = &spec.port_names[port];
            let own = match spec.config.role {
                Role::Leaf(leaf) => leaf.to_string(),
                Role::Spine(spine) => spine.to_string(),
            };
            let (peer, is_fabric) = match spec.config.ports[port].kind {
                PortKind::Host => (name.clone(), false),
                PortKind::Fabric(Peer::Leaf(leaf)) => (leaf.to_string(), true),
                PortKind::Fabric(Peer::Spine(spine)) => (spine.to_string(), true),
            };
            places.push(Place {
                link: format!("{own}>{peer}"),
                switch: of.switch,
                port: PortId(of.port),
                is_fabric,
                lcore,
                device: (device, lane),
                is_wire: false,
                seed: config::fabric::seed_of(spec.config.seed, name),
                faults: spec.faults[port].clone(),
                is_on: true,
            });
        }
    }
    places
}

/// A device as DPDK is told of it, on this machine.
///
/// # Errors
/// Where its interface is of no NIC.
pub fn on_bus(device: &config::Device) -> Result<config::Device, Failure> {
    device.on_bus(Path::new("/")).map_err(|interface| {
        Failure::environment(format!(
            "there is no NIC on the PCI bus whose interface is {interface}; see `spraycheck doctor`"
        ))
    })
}

/// Makes and starts everything.
///
/// # Errors
/// What DPDK says, or what is too small, with numbers and cure.
pub fn build(
    eal: &Eal,
    set: &SwitchSet,
    placement: &Placement,
    trunks: &Arc<Vec<TrunkCounters>>,
    shared: &Shared,
    links: &Arc<LinkWord>,
) -> Result<Built, Failure> {
    let lcores = placement.cpus.len();
    let mut taken = Vec::new();
    for device in &set.devices {
        let port = Port::by_name(eal, on_bus(&device.device)?.name())?;
        let able = port.capabilities()?;
        taken.push((port, able));
    }
    // All devices spread by one rule, or none: a flow must meet its close. A table of queues is cut
    // to a power of two alike whatever its size.
    let spreads = lcores.is_power_of_two()
        && lcores > 1
        && taken
            .iter()
            .all(|(_, able)| able.can_spread && able.rx_queues_max as usize >= lcores);
    let rx_queues = if spreads { lcores } else { 1 };
    let sockets: Vec<Option<u32>> = taken.iter().map(|(_, able)| able.socket).collect();
    let pools = pools(eal, set, lcores, rx_queues, &sockets)?;
    let pool_at = |socket: Option<u32>| -> Mempool {
        let found = pools.iter().find(|(of, _)| *of == socket);
        found
            .or(pools.first())
            .map(|(_, pool)| pool.clone())
            .expect("there is one at least")
    };
    let (mut ports, mut queues) = (Vec::new(), Vec::new());
    for ((port, able), (device, &owner)) in taken
        .into_iter()
        .zip(set.devices.iter().zip(&placement.owners))
    {
        let name = device.device.name();
        warn_of_socket(eal, name, able.socket, owner);
        let config = PortConfig {
            rx_descriptors: DESCRIPTORS,
            tx_descriptors: DESCRIPTORS,
            rx_queues: rx_queues as u16,
            spreads,
            ..PortConfig::new(pool_at(able.socket))
        };
        let started = port.start(config)?;
        for warning in &started.warnings {
            tracing::warn!("{name}: {warning}");
        }
        ports.push(started.port);
        queues.push((started.rx, started.tx));
    }
    let ends = Ends {
        queues,
        spreads,
        pools: (1..=lcores as u32)
            .map(|lcore| pool_at(Some(dpdk::lcore::socket(eal, lcore))))
            .collect(),
    };
    let workers = workers(eal, set, placement, ends, trunks, shared, links)?;
    Ok(Built {
        workers,
        ports,
        pools: pools.into_iter().map(|(_, pool)| pool).collect(),
    })
}

fn warn_of_socket(eal: &Eal, name: &str, socket: Option<u32>, owner: usize) {
    let polls_at = dpdk::lcore::socket(eal, owner as u32 + 1);
    if let Some(socket) = socket.filter(|&socket| socket != polls_at) {
        tracing::warn!(
            "{name} is at NUMA node {socket}, and lcore {owner} that sends on it at node {polls_at}: \
             every packet crosses between them; list CPUs of node {socket} in eal.cpus"
        );
    }
}

/// One pool for each NUMA node that a device is at. Any of them may have to fill all queues.
fn pools(
    eal: &Eal,
    set: &SwitchSet,
    lcores: usize,
    rx_queues: usize,
    sockets: &[Option<u32>],
) -> Result<Vec<(Option<u32>, Mempool)>, Failure> {
    let mut nodes: Vec<Option<u32>> = Vec::new();
    for &socket in sockets {
        if !nodes.contains(&socket) {
            nodes.push(socket);
        }
    }
    let places = places(set, lcores as u64, rx_queues as u64);
    let room = (u64::from(set.eal.buffer_bytes), HEADROOM_BYTES);
    let memory = set.eal.size.bytes() / nodes.len().max(1) as u64;
    let count = pool::size(places, set.eal.buffers, room, (memory, OWN_BYTES));
    let count = count.map_err(Failure::usage)?;
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut pools = Vec::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let name = format!("packets{index}");
        let room = set.eal.buffer_bytes;
        let made = Mempool::create(eal, &name, count, POOL_CACHE, room, node);
        let pool = match (made, node) {
            (Ok(pool), _) => pool,
            (Err(error), None) => return Err(error.into()),
            // A node may have a device and no memory.
            (Err(error), Some(node)) => {
                tracing::warn!(
                    "no packet memory at NUMA node {node} ({error}); taking it anywhere"
                );
                Mempool::create(eal, &format!("{name}any"), count, POOL_CACHE, room, None)?
            }
        };
        pools.push((node, pool));
    }
    Ok(pools)
}

/// What workers are joined to.
pub struct Ends {
    /// Queues of each device.
    pub queues: Vec<(Vec<RxQueue>, Vec<TxQueue>)>,
    /// Whether each device has a receive queue for each lcore.
    pub spreads: bool,
    /// Packet memory of each lcore.
    pub pools: Vec<Mempool>,
}

fn workers(
    eal: &Eal,
    set: &SwitchSet,
    placement: &Placement,
    ends: Ends,
    trunks: &Arc<Vec<TrunkCounters>>,
    shared: &Shared,
    links: &Arc<LinkWord>,
) -> Result<Vec<Worker>, Failure> {
    let lcores = placement.cpus.len();
    let mut inlets: Vec<Vec<Inlet>> = (0..lcores).map(|_| Vec::new()).collect();
    let mut outlets: Vec<Vec<Outlet>> = (0..lcores).map(|_| Vec::new()).collect();
    for (device, (rx, tx)) in ends.queues.into_iter().enumerate() {
        let owner = placement.owners[device];
        let lanes = lanes(&set.devices[device]);
        for (queue, rx) in rx.into_iter().enumerate() {
            let lcore = if ends.spreads { queue } else { owner };
            inlets[lcore].push(Inlet {
                rx: Rx::Device(rx),
                dealer: Dealer::new(&lanes),
                device,
                is_spread: ends.spreads,
            });
        }
        for tx in tx {
            let shares = shares(set, &set.devices[device]);
            let mut outlet = Outlet::new(Tx::Device(tx), &lanes, shares, device);
            for (place, lane) in set.devices[device].lanes.iter().enumerate() {
                let spec = &set.switches[lane.switch];
                let port = usize::from(lane.port);
                let seed = config::fabric::seed_of(spec.config.seed, &spec.port_names[port]);
                outlet.inject(place, &spec.faults[port], seed);
            }
            outlets[owner].push(outlet);
        }
    }
    let owners = owners(set, placement);
    let ports = set.switches.iter().map(|spec| spec.config.ports.len());
    let hub = Arc::new(Hub::new(ports, lcores));
    let rings = rings(eal, "between", lcores)?;
    let parts = inlets.into_iter().zip(outlets).zip(rings).zip(ends.pools);
    let worker = |(lcore, (((inlets, outlets), rings), pool))| {
        let instance =
            |spec: &config::SwitchSpec| Switch::new(&config_of(&spec.config, lcore, lcores));
        Worker::new(Setup {
            lcore: (lcore, lcores),
            switches: set.switches.iter().map(instance).collect(),
            owners: owners.clone(),
            inlets,
            outlets,
            trunks: Arc::clone(trunks),
            rings,
            pool,
            seam: Arc::clone(&shared.seam),
            hub: Arc::clone(&hub),
            links: Arc::clone(links),
            changes: Arc::clone(&shared.links),
        })
    };
    Ok(parts.enumerate().map(worker).collect())
}

fn lanes(device: &SharedDevice) -> Vec<Lane> {
    let lane = |lane: &config::DeviceLane| Lane {
        switch: lane.switch,
        port: PortId(lane.port),
        vlan: lane.vlan,
    };
    device.lanes.iter().map(lane).collect()
}

/// The bucket of a device above those of its ports.
fn shares(set: &SwitchSet, device: &SharedDevice) -> Shares {
    let queues = device
        .lanes
        .iter()
        .map(|lane| &set.switches[lane.switch].config.queue);
    let slack_ns = queues.clone().map(|queue| queue.slack_ns).max();
    let overhead = queues.map(|queue| queue.overhead_bytes).max();
    let rate_bps = device.rate.map(config::Rate::bits_per_second);
    Shares::new(
        device.lanes.len(),
        rate_bps,
        slack_ns.unwrap_or(0),
        overhead.unwrap_or(0),
    )
}

/// Per switch and port, the lcore that owns it and its device.
fn owners(set: &SwitchSet, placement: &Placement) -> Vec<Vec<(usize, usize)>> {
    let mut owners: Vec<Vec<(usize, usize)>> = set
        .switches
        .iter()
        .map(|spec| vec![(0, 0); spec.config.ports.len()])
        .collect();
    for (device, shared) in set.devices.iter().enumerate() {
        for lane in &shared.lanes {
            owners[lane.switch][usize::from(lane.port)] = (placement.owners[device], device);
        }
    }
    owners
}

/// What the instance of a switch on one of several lcores is told: its own generator, its part of
/// what is bounded for the switch, and whether it is the one that speaks for a spine.
pub fn config_of(config: &SwitchConfig, lcore: usize, lcores: usize) -> SwitchConfig {
    let mut config = config.clone();
    if lcores == 1 {
        return config;
    }
    // An odd multiplier keeps the seeds apart (the golden ratio's bits, as in splitmix64).
    config.seed ^= (lcore as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let icmp = config.gateway.icmp_per_second;
    config.gateway.icmp_per_second = icmp.div_ceil(lcores as u32);
    // Every instance of a spine would tell every leaf the same.
    if matches!(config.role, Role::Spine(_)) && lcore > 0 {
        config.link_state_ns = None;
    }
    config
}

/// Rings between all pairs of lcores: for each its ends, by the other.
///
/// # Errors
/// When DPDK has no memory for them.
pub fn rings(eal: &Eal, name: &str, lcores: usize) -> Result<Vec<Vec<Option<Rings>>>, Failure> {
    let mut senders: Vec<Vec<Option<_>>> = Vec::new();
    let mut receivers: Vec<Vec<Option<_>>> = (0..lcores)
        .map(|_| (0..lcores).map(|_| None).collect())
        .collect();
    for from in 0..lcores {
        let mut row = Vec::new();
        for (to, receivers) in receivers.iter_mut().enumerate() {
            if from == to {
                row.push(None);
                continue;
            }
            let ring = |kind: &str| {
                dpdk::ring(
                    eal,
                    &format!("{name}-{kind}{from}-{to}"),
                    RING_PACKETS,
                    None,
                )
            };
            let (spread_to, spread_from) = ring("s")?;
            let (hand_to, hand_from) = ring("h")?;
            row.push(Some((spread_to, hand_to)));
            receivers[from] = Some((spread_from, hand_from));
        }
        senders.push(row);
    }
    let join = |(senders, receivers): (Vec<Option<_>>, Vec<Option<_>>)| {
        let pairs = senders.into_iter().zip(receivers);
        let join = |(to, from): (Option<(_, _)>, Option<(_, _)>)| {
            let ((spread_to, hand_to), (spread_from, hand_from)) = to.zip(from)?;
            Some(Rings {
                spread_to,
                spread_from,
                hand_to,
                hand_from,
            })
        };
        pairs.map(join).collect()
    };
    Ok(senders.into_iter().zip(receivers).map(join).collect())
}

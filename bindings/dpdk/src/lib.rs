//! The safe, thin layer over DPDK: what a poll-mode switch needs, and no more.
//!
//! # Layers
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Eal`] | the process-wide environment, from a typed [`EalConfig`] |
//! | [`Mempool`], [`Mbuf`], [`Burst`] | packet memory, one packet, up to 64 packets |
//! | [`Port`], [`RxQueue`], [`TxQueue`] | devices and what a poll loop polls |
//! | [`ring`] | packets from one thread to another |
//! | [`lcore`] | functions on pinned threads |
//! | [`Clock`] | nanoseconds from the cycle counter |
//! | [`telemetry`] | own commands on DPDK's socket |
//! | [`mod@bench`] | a plain loop in C to measure against |
//!
//! Underneath is `dpdk-sys`, whose C shim is the only code that knows a DPDK structure. A whole
//! program is in `examples/forward.rs`; its core is this:
//!
//! ```no_run
//! use dpdk::{Burst, Eal, EalConfig, Mempool, Port, PortConfig};
//!
//! # fn main() -> Result<(), dpdk::Error> {
//! let eal = Eal::init(EalConfig {
//!     vdevs: vec!["net_null0,size=64".into()],
//!     ..EalConfig::default()
//! })?;
//! let pool = Mempool::create(&eal, "packets", 8191, 256, 2048, None)?;
//! let mut port = Port::by_name(&eal, "net_null0")?.start(PortConfig::new(pool))?;
//! let mut burst = Burst::new();
//! for _ in 0..1000 {
//!     port.rx[0].receive(&mut burst);
//!     for packet in burst.iter_mut() {
//!         packet.data_mut()[..6].fill(0xff); // the device makes frames of 64 bytes
//!     }
//!     port.tx[0].send(&mut burst);
//!     burst.clear(); // what the device did not take
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! - [`Eal::init`] pins the calling thread to the main lcore's CPU, and threads that it starts
//!   later inherit this. Start others first, or give them CPUs of their own.
//! - Queues and ring ends are `Send`, neither `Sync` nor `Clone`: whoever holds one polls it.
//!   Packets are `Send`. Pools are shared freely.
//! - Pools keep a cache per lcore, which threads that are no lcores do without: they may
//!   allocate and free, at a price of some ten nanoseconds per packet.
//! - Several lcores may share a CPU, for tests. They must sleep or yield when idle, and a thread
//!   that is preempted within a pool or ring makes the others wait for it.
//! - A panic on an lcore aborts the process with its message.
//!
//! # What is safe, and why
//!
//! - A packet has one owner: an [`Mbuf`] can't be cloned, and moving it into a queue or ring
//!   gives it up. What is dropped returns to its pool.
//! - Everything that DPDK's memory must outlive holds EAL: clean-up happens after the last pool,
//!   ring, port and running lcore, in whatever order they are dropped.
//! - Packets do not hold their pool, for speed. A pool whose packets are still out when its last
//!   handle goes is leaked and keeps EAL up, with a line on standard error. If all are back, it
//!   waits 10 ms before it frees, for a thread that is just returning from giving the last one
//!   back.
//! - A port is taken once, so a queue is polled by one thread. It is stopped and closed after
//!   its last queue, and before its pool.
//! - Received bytes are whatever the device wrote. They may be chained over several buffers
//!   (`net_pcap` does it to frames beyond the data room), which [`Mbuf::is_single_segment`]
//!   tells; `data` shows the first one.
//!
//! # What it does not do
//!
//! No offloads, no RSS, no receive interrupts, no secondary processes. [`Eal::init`] works
//! without root and without hugepages.

#[cfg(not(target_os = "linux"))]
compile_error!("this crate needs Linux");

pub mod bench;
mod burst;
mod clock;
mod eal;
mod error;
pub mod lcore;
mod mbuf;
mod mempool;
mod port;
mod ring;
pub mod telemetry;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;

pub use burst::{BURST_MAX, Burst};
pub use clock::Clock;
pub use eal::{Eal, EalConfig, FreeHugepages, LogLevel, Memory, arguments, version};
pub use error::{Errno, Error};
pub use mbuf::{Mbuf, NoRoom};
pub use mempool::Mempool;
pub use port::{
    Capabilities, Descriptors, Link, Port, PortConfig, PortStats, RxQueue, Started, StartedPort,
    TxQueue, frame_bytes_max,
};
pub use ring::{RingReceiver, RingSender, ring};

//! The safe, thin layer over DPDK.

#[cfg(not(target_os = "linux"))]
compile_error!("this crate needs Linux");

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

pub use burst::{BURST_MAX, Burst, Frames};
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

//! A DPDK device as the poll loops of one switch see it: receive a burst, send what is due.
//!
//! What a transmit ring does not take is kept and offered again first, so that nothing is lost
//! behind the switch's back and the order of a port's packets stays.

use dpdk::{Burst, Eal, PortConfig, RxQueue, StartedPort, TxQueue};
use pipeline::{Nanos, PortId, Switch};

use crate::failure::Failure;
use crate::packet::{Departing, Packet};

/// Packets that a port sends in one round at most.
const BURST: usize = 32;

/// The queues of a started device.
pub struct Device {
    rx: RxQueue,
    tx: TxQueue,
    unsent: Burst,
}

impl Device {
    /// Takes and starts the device called `name`; the port tells its link state.
    ///
    /// # Errors
    /// What DPDK says.
    pub fn start(
        eal: &Eal,
        name: &str,
        config: PortConfig,
    ) -> Result<(Device, StartedPort), Failure> {
        let mut started = dpdk::Port::by_name(eal, name)?.start(config)?;
        for warning in &started.warnings {
            tracing::warn!("{name}: {warning}");
        }
        let (Some(rx), Some(tx)) = (started.rx.pop(), started.tx.pop()) else {
            return Err(Failure::environment(format!("{name} gave no queues")));
        };
        let device = Device {
            rx,
            tx,
            unsent: Burst::new(),
        };
        Ok((device, started.port))
    }

    /// Adds what has arrived to `burst`. Returns how many packets that are.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        self.rx.receive(burst)
    }

    /// Sends what is due on `port`. Returns how many packets the ring took.
    #[inline]
    pub fn send_due(&mut self, switch: &mut Switch<Packet>, now: Nanos, port: PortId) -> usize {
        let Device { tx, unsent, .. } = self;
        let room = BURST.saturating_sub(unsent.len());
        switch.egress_burst(now, port, room, &mut Departing(unsent));
        if unsent.is_empty() {
            0
        } else {
            tx.send(unsent)
        }
    }
}

//! What a frame will meet, asked of the CPU's caches before it comes.
//!
//! For a driver of many hosts that knows which frames come next, such as the simulator. Nothing changes by it
//! but speed.

use packet::Qpn;
use packet::bth;
use packet::head::{BTH_AT, HEAD_LEN};

use super::Host;

impl Host {
    /// First: the host.
    #[inline(always)]
    pub fn foresee(&self) {
        prefetch::line(&self.qps);
        prefetch::line(&self.index);
        prefetch::line(&self.timers);
        prefetch::line(&self.pacer);
        prefetch::line(&self.counters.frames_received);
        prefetch::line(&self.config.address);
    }

    /// Second: the connection of a frame with such headers, if they have the common shape. They are not
    /// checked.
    #[inline(always)]
    pub fn foresee_qp(&self, header: &[u8]) {
        let Some(header) = header.first_chunk::<HEAD_LEN>() else {
            return;
        };
        let [_, a, b, c] = header[BTH_AT + bth::DESTINATION_QP - 1..][..4] else {
            return;
        };
        let Some(id) = self.index.get(Qpn(u32::from_be_bytes([0, a, b, c]))) else {
            return;
        };
        if let Some(qp) = self.qps.get(id as usize) {
            prefetch::line(&qp.route);
            prefetch::line(&qp.failed);
            qp.receiver.foresee();
        }
    }
}

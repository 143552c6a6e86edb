//! What a packet will meet, asked of the CPU's caches before it comes.
//!
//! A driver that knows which packets come next, such as the simulator, calls these some packets ahead,
//! each when the one before it has had time to arrive. Nothing changes by them but speed; what they
//! ask for in vain costs a few instructions.

use packet::bth::{COLOUR, MARK};
use packet::head::Head;

use crate::known::Toward;
use crate::switch::{State, Switch};
use crate::token::Token;
use crate::types::PortId;

impl<T: Token> Switch<T> {
    /// First: what stands beside a port.
    #[inline(always)]
    pub fn foresee_port(&self, port: PortId) {
        let port = port.index();
        if let Some(state) = self.ports.get(port) {
            prefetch::line(state);
        }
        self.exit.queues.foresee_received(port);
    }

    /// Second: what is known of the flow of a packet that comes in on `port`.
    #[inline(always)]
    pub fn foresee_flow(&self, port: PortId, token: &T) {
        if let Some((head, scope)) = self.head_of(port, token) {
            self.known.foresee(&head, scope);
        }
    }

    /// Third: where that packet will leave.
    #[inline(always)]
    pub fn foresee_exit(&self, port: PortId, token: &T) -> Option<PortId> {
        let (head, scope) = self.head_of(port, token)?;
        match (self.known.toward(&head, scope)?, &self.state) {
            (Toward::Leaf(leaf), State::Leaf(state)) => {
                let [a, b] = state.sprayer.foresee(leaf)?;
                self.exit.queues.foresee(a);
                self.exit.queues.foresee(b);
                None
            }
            (Toward::Port(out, _), state) => {
                let out = usize::from(out);
                self.exit.queues.foresee(out);
                if let (State::Spine(spine), true) = (state, head.flags & MARK != 0) {
                    let [from, to] = [port.index(), out].map(|at| usize::from(self.ports[at].peer));
                    let colour = usize::from(head.flags & COLOUR != 0);
                    spine.counts.foresee(spine.counts.cell_of(from, to, colour));
                }
                Some(PortId(out as u16))
            }
            (Toward::Leaf(_), State::Spine(_)) => None,
        }
    }

    #[inline(always)]
    fn head_of(&self, port: PortId, token: &T) -> Option<(Head, u32)> {
        let head = Head::read(token.header().first_chunk()?, u32::MAX)?;
        Some((head, self.ports.get(port.index())?.scope))
    }
}

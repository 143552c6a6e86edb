//! What a packet will meet, asked of the CPU's caches before it comes.
//!
//! A driver that knows which packets come next, such as the simulator, calls these some packets ahead,
//! each when the one before it has had time to arrive. Nothing changes by them but speed; what they
//! ask for in vain costs a few instructions.

use packet::bth::{self, COLOUR, MARK};
use packet::head::{BTH_AT, Head};

use crate::known::Toward;
use crate::switch::{State, Switch};
use crate::token::Token;
use crate::types::PortId;

impl<T: Token> Switch<T> {
    /// First: the switch itself.
    #[inline(always)]
    pub fn foresee(&self) {
        prefetch::line(&self.ports);
        prefetch::line(&self.known);
        prefetch::line(&self.exit.queues);
        prefetch::line(&self.counters.rx);
        prefetch::line(&self.counters.notes);
        prefetch::line(&self.state);
    }

    /// Second: what stands beside a port.
    #[inline(always)]
    pub fn foresee_port(&self, port: PortId) {
        let port = port.index();
        if let Some(state) = self.ports.get(port) {
            prefetch::line(state);
        }
        self.exit.queues.foresee_received(port);
        match &self.state {
            State::Leaf(leaf) => {
                prefetch::line(&leaf.sprayer);
                prefetch::line(&leaf.source);
                prefetch::line(&leaf.destination);
            }
            State::Spine(spine) => prefetch::line(&spine.counts),
        }
    }

    /// Third: what is known of the flow of a packet that comes in on `port`; tells its place.
    #[inline(always)]
    pub fn foresee_flow(&self, port: PortId, token: &T) -> Option<usize> {
        let head = Head::read(token.header().first_chunk()?, u32::MAX)?;
        let scope = self.ports.get(port.index())?.scope;
        Some(self.known.foresee(&head, scope))
    }

    /// Fourth: where that packet will leave, if the flow at that place is its own; tells the port if
    /// there is but one.
    #[inline(always)]
    pub fn foresee_exit(&self, port: PortId, place: usize, token: &T) -> Option<PortId> {
        match (self.known.toward(place), &self.state) {
            (Toward::Leaf(leaf), State::Leaf(state)) => {
                let [a, b] = state.sprayer.foresee(leaf)?;
                self.exit.queues.foresee(a);
                self.exit.queues.foresee(b);
                None
            }
            (Toward::Port(out, _), state) => {
                let out = usize::from(out);
                self.exit.queues.foresee(out);
                let flags = *token.header().get(BTH_AT + bth::RESV8A)?;
                if let (State::Spine(spine), true) = (state, flags & MARK != 0) {
                    let peer = |at: usize| Some(usize::from(self.ports.get(at)?.peer));
                    let (from, to) = (peer(port.index())?, peer(out)?);
                    let colour = usize::from(flags & COLOUR != 0);
                    spine.counts.foresee(spine.counts.cell_of(from, to, colour));
                }
                Some(PortId(out as u16))
            }
            (Toward::Leaf(_), State::Spine(_)) => None,
        }
    }
}

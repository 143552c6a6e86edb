//! What a packet will meet, asked of the CPU's caches before it comes.
//!
//! A driver that knows which packets come next, such as the simulator, calls these some packets ahead,
//! each when the one before it has had time to arrive. Nothing changes by them but speed; what they
//! ask for in vain costs a few instructions.

use packet::bth::{self, COLOUR, MARK};
use packet::head::BTH_AT;

use crate::known::Toward;
use crate::switch::{State, Switch};
use crate::token::Token;
use crate::types::PortId;

impl<T: Token> Switch<T> {
    /// First: the switch itself.
    #[inline(always)]
    pub fn foresee(&self) {
        prefetch::line(self);
        self.exit.queues.foresee_all();
        prefetch::line(&self.counters);
    }

    /// Second: what stands beside the switch.
    #[inline(always)]
    pub fn foresee_state(&self) {
        match &self.state {
            State::Leaf(leaf) => {
                prefetch::line(&leaf.sprayer);
                prefetch::line(&leaf.source);
                prefetch::line(&leaf.destination);
            }
            State::Spine(spine) => prefetch::line(&spine.counts),
        }
    }

    /// Second, too: a port that a packet comes in on, and what is known of its flow; tells the flow's
    /// place.
    #[inline(always)]
    pub fn foresee_flow(&self, port: PortId, token: &T) -> Option<usize> {
        prefetch::line(self.ports.get(port.index())?);
        Some(self.known.foresee(token.header().first_chunk()?))
    }

    /// Third: where that packet will leave, if the flow at that place is its own; tells the port if
    /// there is but one.
    #[inline(always)]
    pub fn foresee_exit(&self, port: PortId, place: usize, token: &T) -> Option<PortId> {
        let (toward, peer) = self.known.toward(place);
        match (toward, &self.state) {
            (Toward::Leaf(leaf), State::Leaf(state)) => {
                let [a, b] = state.sprayer.foresee(leaf)?;
                self.exit.queues.foresee(a);
                self.exit.queues.foresee(b);
                None
            }
            (Toward::Port(out, _), state) => {
                self.exit.queues.foresee(usize::from(out));
                let flags = *token.header().get(BTH_AT + bth::RESV8A)?;
                if let (State::Spine(spine), true) = (state, flags & MARK != 0) {
                    let from = usize::from(self.ports.get(port.index())?.peer);
                    let colour = usize::from(flags & COLOUR != 0);
                    let cell = spine.counts.cell_of(from, usize::from(peer), colour);
                    spine.counts.foresee(cell);
                }
                Some(PortId(out))
            }
            (Toward::Leaf(_), State::Spine(_)) => None,
        }
    }
}

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
    /// First: a port that a packet comes in on, and what is known of its flow; tells the flow's
    /// place.
    #[inline(always)]
    pub fn foresee_flow(&self, port: PortId, token: &T) -> Option<usize> {
        prefetch::line(self.ports.get(port.index())?);
        Some(self.known.foresee(token.header().first_chunk()?))
    }

    /// Second: where that packet will leave, if the flow at that place is its own.
    #[inline(always)]
    pub fn foresee_exit(&self, port: PortId, place: usize, token: &T) {
        let (toward, peer) = self.known.toward(place);
        match (toward, &self.state) {
            (Toward::Leaf(leaf), State::Leaf(state)) => {
                for port in state.sprayer.foresee(leaf).into_iter().flatten() {
                    self.exit.queues.foresee(port);
                }
            }
            (Toward::Port(out, _), state) => {
                self.exit.queues.foresee(usize::from(out));
                let flags = token.header().get(BTH_AT + bth::RESV8A).copied();
                let flags = flags.unwrap_or(0);
                if let (State::Spine(spine), true) = (state, flags & MARK != 0)
                    && let Some(from) = self.ports.get(port.index())
                {
                    let (from, to) = (usize::from(from.peer), usize::from(peer));
                    let colour = usize::from(flags & COLOUR != 0);
                    let cell = spine.counts.cell_of(from, to, colour);
                    spine.counts.foresee(cell);
                }
            }
            (Toward::Leaf(_), State::Spine(_)) => {}
        }
    }
}

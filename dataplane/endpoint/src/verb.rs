//! What a flow does to the peer's memory, and the opcodes that say so (IBTA volume 1, table 38).

use packet::Opcode;

/// The operation of a flow's messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Verb {
    /// RDMA WRITE: the peer's memory is named by the sender.
    #[default]
    Write,
    /// RDMA WRITE with immediate: each message also takes a receive request of the peer.
    WriteImmediate,
    /// SEND: into the receive request that the peer has posted.
    Send,
    /// SEND with immediate.
    SendImmediate,
    /// RDMA READ: the peer's bytes come here. Never announced: the switches measure the
    /// direction of the data, which is not ours to announce.
    Read,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 5] = [
        Verb::Write,
        Verb::WriteImmediate,
        Verb::Send,
        Verb::SendImmediate,
        Verb::Read,
    ];

    /// Whether each message carries immediate data.
    #[inline]
    pub(crate) fn has_immediate(self) -> bool {
        matches!(self, Verb::WriteImmediate | Verb::SendImmediate)
    }

    /// Whether the packet that begins a message names an address.
    #[inline]
    pub(crate) fn has_address(self) -> bool {
        matches!(self, Verb::Write | Verb::WriteImmediate | Verb::Read)
    }

    /// The opcode of a packet, by its place in its message.
    #[inline]
    pub(crate) fn opcode(self, begins: bool, ends: bool) -> Opcode {
        let base = match self {
            Verb::Write | Verb::WriteImmediate => Opcode::WRITE_FIRST.0,
            Verb::Send | Verb::SendImmediate => 0,
            Verb::Read => return Opcode::READ_REQUEST,
        };
        // First, Middle, Last, Last with immediate, Only, Only with immediate.
        let place = match (begins, ends) {
            (true, false) => 0,
            (false, false) => 1,
            (false, true) => 2 + u8::from(self.has_immediate()),
            (true, true) => 4 + u8::from(self.has_immediate()),
        };
        Opcode(base + place)
    }
}

/// Whether a packet is in the midst of a SEND or WRITE.
#[inline]
pub(crate) fn is_middle(opcode: u8) -> bool {
    opcode == 0x01 || opcode == 0x07
}

/// The opcode of a READ response, by its place in the answer.
#[inline]
pub(crate) fn response_opcode(begins: bool, ends: bool) -> Opcode {
    Opcode(match (begins, ends) {
        (true, false) => 0x0d,
        (false, false) => 0x0e,
        (false, true) => 0x0f,
        (true, true) => 0x10,
    })
}

/// What kind of packet an opcode announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Write,
    Send,
    Request,
    Response,
    Ack,
    Other,
}

/// What stands behind the BTH of an opcode, and where in its message the packet stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) class: Class,
    pub(crate) begins: bool,
    pub(crate) ends: bool,
    pub(crate) immediate: bool,
    pub(crate) reth: bool,
    pub(crate) aeth: bool,
}

static SHAPES: [Shape; 32] = shapes();

/// The shape of an opcode of the reliable connection; [`Class::Other`] for all else.
#[inline]
pub(crate) fn shape(opcode: Opcode) -> Shape {
    if opcode.0 < 32 {
        SHAPES[usize::from(opcode.0)]
    } else {
        Shape {
            class: Class::Other,
            ..SHAPES[31]
        }
    }
}

const fn shapes() -> [Shape; 32] {
    let none = Shape {
        class: Class::Other,
        begins: false,
        ends: false,
        immediate: false,
        reth: false,
        aeth: false,
    };
    let mut table = [none; 32];
    let mut code = 0;
    while code < 12 {
        let place = code % 6;
        let begins = place == 0 || place >= 4;
        table[code] = Shape {
            class: if code < 6 { Class::Send } else { Class::Write },
            begins,
            ends: place >= 2,
            immediate: place == 3 || place == 5,
            reth: begins && code >= 6,
            aeth: false,
        };
        code += 1;
    }
    table[0x0c] = Shape {
        class: Class::Request,
        reth: true,
        begins: true,
        ends: true,
        ..none
    };
    let mut code = 0x0d;
    while code <= 0x10 {
        table[code] = Shape {
            class: Class::Response,
            begins: code == 0x0d || code == 0x10,
            ends: code >= 0x0f,
            aeth: code != 0x0e,
            ..none
        };
        code += 1;
    }
    table[0x11] = Shape {
        class: Class::Ack,
        aeth: true,
        ..none
    };
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what a verb writes is what the reader takes it for.
    #[test]
    fn opcodes_read_back() {
        for verb in Verb::ALL {
            for (begins, ends) in [(true, false), (false, false), (false, true), (true, true)] {
                let shape = shape(verb.opcode(begins, ends));
                let class = match verb {
                    Verb::Read => Class::Request,
                    Verb::Write | Verb::WriteImmediate => Class::Write,
                    Verb::Send | Verb::SendImmediate => Class::Send,
                };
                assert_eq!(shape.class, class);
                if verb != Verb::Read {
                    assert_eq!((shape.begins, shape.ends), (begins, ends), "{verb:?}");
                    assert_eq!(shape.immediate, ends && verb.has_immediate());
                    assert_eq!(shape.reth, begins && verb.has_address());
                }
                let response = super::shape(response_opcode(begins, ends));
                assert_eq!(response.class, Class::Response);
                assert_eq!((response.begins, response.ends), (begins, ends));
                assert_eq!(response.aeth, begins || ends);
            }
        }
        for code in 0x12..=0xff {
            assert_eq!(shape(Opcode(code)).class, Class::Other);
        }
    }
}

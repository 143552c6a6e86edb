//! What a receiver has taken in order: bytes, messages, and the acknowledgement they are owed.

// A packet as a word: its length and one in the low 13 bits, and what it was.
pub(super) const TAKES_RECEIVE: u16 = 0x8000;
pub(super) const ENDS_MESSAGE: u16 = 0x4000;
pub(super) const ACK_REQ: u16 = 0x2000;
pub(super) const LEN: u16 = 0x1fff;
/// In place of a length: the packet stands for one of an answer.
pub(super) const READ: u16 = LEN;

/// What has come in order.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) ack_every: u32,
    /// In-order packets since the last acknowledgement.
    pub(super) unacknowledged: u32,
    pub(super) ack_due: bool,
    pub(super) not_ready_due: bool,
    /// Receive requests posted; `None`: never short of them.
    pub(super) receives: Option<u32>,
    /// Message sequence number: messages complete.
    pub(super) messages: u32,
    pub(super) delivered_bytes: u64,
    pub(super) reported_bytes: u64,
    pub(super) reported_messages: u32,
    pub(super) open_bytes: u64,
}

impl Inbox {
    pub(super) fn new(ack_every: u32) -> Inbox {
        Inbox {
            ack_every,
            unacknowledged: 0,
            ack_due: false,
            not_ready_due: false,
            receives: None,
            messages: 0,
            delivered_bytes: 0,
            reported_bytes: 0,
            reported_messages: 0,
            open_bytes: 0,
        }
    }

    /// Takes the next packet in order; false when it needs a receive request and there is none.
    #[inline]
    pub(super) fn take(&mut self, word: u16) -> bool {
        if word & TAKES_RECEIVE != 0
            && let Some(receives) = &mut self.receives
        {
            let Some(left) = receives.checked_sub(1) else {
                self.not_ready_due = true;
                return false;
            };
            *receives = left;
        }
        self.unacknowledged += 1;
        let is_read = word & LEN == READ;
        if !is_read {
            let len = u64::from(word & LEN) - 1;
            self.delivered_bytes += len;
            self.open_bytes += len;
        }
        if word & ENDS_MESSAGE != 0 {
            self.messages = self.messages.wrapping_add(1);
            if !is_read {
                self.reported_messages += 1;
                self.reported_bytes += self.open_bytes;
                self.open_bytes = 0;
            }
        }
        if word & ACK_REQ != 0 || self.unacknowledged >= self.ack_every {
            self.ack_due = true;
        }
        true
    }
}

//! ARP over Ethernet for IPv4 (RFC 826): the one request a leaf answers.

use crate::{Address, MacAddr, be};

/// Length of the packet behind the Ethernet header.
pub const LEN: usize = 28;

/// What an ARP packet asks or tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// Request (true) or reply.
    pub is_request: bool,
    /// Sender's hardware address.
    pub sender_mac: MacAddr,
    /// Sender's protocol address.
    pub sender: Address,
    /// Protocol address that is asked for, or answered to.
    pub target: Address,
}

/// Reads the ARP packet at `at`; `None` when it is cut or not Ethernet and IPv4.
pub fn read(frame: &[u8], at: usize) -> Option<Arp> {
    let packet = frame.get(at..at + LEN)?;
    if packet[..6] != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    let operation = be::get16(packet, 6);
    if operation != 1 && operation != 2 {
        return None;
    }
    Some(Arp {
        is_request: operation == 1,
        sender_mac: MacAddr::read(packet, 8),
        sender: Address::v4(be::get32(packet, 14)),
        target: Address::v4(be::get32(packet, 24)),
    })
}

/// Turns the ARP request at `at` into the reply "`mac` has it", Ethernet addresses included.
pub fn answer(frame: &mut [u8], at: usize, mac: MacAddr) {
    let asker = MacAddr::read(frame, at + 8);
    crate::ethernet::set_addresses(frame, asker, mac);
    let packet = &mut frame[at..at + LEN];
    packet[7] = 2;
    let (sender, target) = packet[8..28].split_at_mut(10);
    sender.swap_with_slice(target);
    sender[..6].copy_from_slice(&mac.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_becomes_its_reply() {
        let mut frame = [0u8; 42];
        frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        frame[22..28].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        frame[28..32].copy_from_slice(&[10, 0, 0, 1]);
        frame[38..42].copy_from_slice(&[10, 0, 1, 1]);
        let asked = read(&frame, 14).unwrap();
        assert!(asked.is_request && asked.target.to_string() == "10.0.1.1");
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        answer(&mut frame, 14, mac);
        let reply = read(&frame, 14).unwrap();
        assert_eq!(
            reply,
            Arp {
                is_request: false,
                sender_mac: mac,
                sender: asked.target,
                target: asked.sender
            }
        );
        assert_eq!(MacAddr::read(&frame, 0), asked.sender_mac);
        assert_eq!(read(&frame[..41], 14), None, "a cut packet is none");
    }
}

//! ARP over Ethernet for IPv4 (RFC 826): the request a leaf answers, and the one it makes.

use crate::{Address, MacAddr, be, ethernet};

/// Length of the packet behind the Ethernet header.
pub const LEN: usize = 28;
/// Length of the frame that [`write_request`] makes.
pub const FRAME_LEN: usize = ethernet::HEADER_LEN + LEN;

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

/// Writes the frame that asks `to` (all stations, or the one that last had it) who has `target`;
/// `out` is of [`FRAME_LEN`]. The sender is `mac` with the address `sender`, or with 0 for none of
/// its own: a probe (RFC 5227), which is answered as well.
pub fn write_request(out: &mut [u8], to: MacAddr, mac: MacAddr, sender: u32, target: u32) {
    ethernet::set_addresses(out, to, mac);
    be::put16(out, ethernet::ETHERTYPE, ethernet::ARP);
    let packet = &mut out[ethernet::HEADER_LEN..FRAME_LEN];
    packet[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    packet[8..14].copy_from_slice(&mac.0);
    be::put32(packet, 14, sender);
    packet[18..24].fill(0);
    be::put32(packet, 24, target);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let (mac, to) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr::BROADCAST);
        let mut frame = [0xeeu8; FRAME_LEN];
        write_request(&mut frame, to, mac, 0x0a00_00fe, 0x0a00_0009);
        let asked = read(&frame, 14).unwrap();
        assert!(asked.is_request && asked.sender_mac == mac);
        assert_eq!(asked.sender.to_string(), "10.0.0.254");
        assert_eq!(asked.target.to_string(), "10.0.0.9");
        let oracle = etherparse::ArpPacketSlice::from_slice(&frame[14..]).unwrap();
        assert_eq!(oracle.operation(), etherparse::ArpOperation::REQUEST);
        assert_eq!(oracle.target_protocol_addr(), [10, 0, 0, 9]);
        assert_eq!(oracle.target_hw_addr(), [0; 6]);
        assert_eq!(
            frame[..14],
            [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6]
        );
    }

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

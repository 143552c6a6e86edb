//! Every drop reason and every note is provoked. The matches have no `_` arm: a new one does not
//! compile until it is provoked as well.

use packet::message::{FLAG_SWITCH, MessageKind};
use packet::{Opcode, ROCE_PORT, be, ethernet, message};
use pipeline::report::Command;
use pipeline::*;

use crate::gateway::*;
use crate::neighbors::*;
use crate::net::*;

/// A packet in two buffers.
struct Split(Frame);

impl Token for Split {
    fn header(&self) -> &[u8] {
        &self.0.0[..20]
    }
    fn header_mut(&mut self) -> &mut [u8] {
        &mut self.0.0[..20]
    }
    fn wire_len(&self) -> u32 {
        self.0.wire_len()
    }
    fn is_whole(&self) -> bool {
        false
    }
}

struct Bin(Vec<DropReason>);

impl Sink<Split> for Bin {
    fn alloc(&mut self, _len: usize) -> Option<Split> {
        None
    }
    fn discard(&mut self, _token: Split, reason: DropReason) {
        self.0.push(reason);
    }
    fn consume(&mut self, _token: Split) {}
    fn report(&mut self, _report: Report<'_>) -> bool {
        true
    }
}

fn changed(at: usize, bytes: &[u8]) -> Frame {
    let mut frame = data(0, 1, 7, 100);
    frame.0[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn ipv6_with_extensions(count: usize) -> Frame {
    let mut frame = vec![0u8; 54 + 8 * count + 24];
    ethernet::set_addresses(&mut frame, gateway_mac(0), host_mac(0));
    be::put16(&mut frame, 12, ethernet::IPV6);
    frame[14] = 0x60;
    be::put16(&mut frame, 18, (8 * count + 24) as u16);
    for index in 0..count {
        frame[54 + 8 * index] = 60;
    }
    Frame(frame)
}

/// A fabric after something that a switch drops for `reason`.
fn after(reason: DropReason) -> Net {
    let mut net = Net::new(|_| {}, false);
    let once = |frame| {
        let mut net = Net::new(|_| {}, false);
        net.send(0, frame);
        net
    };
    match reason {
        DropReason::Runt => once(Frame(vec![0; 13])),
        DropReason::MultiSegment => {
            let mut switch = Switch::new(&config(0, &measurement(false)));
            let mut bin = Bin(Vec::new());
            switch.ingress(Nanos(0), PortId(0), Split(data(0, 1, 7, 0)), &mut bin);
            assert_eq!(bin.0, [reason]);
            assert!(switch.is_conserved() && switch.counters().dropped(reason) == 1);
            // The fabric's own frames are never split, so it is told this one's fate.
            net
        }
        DropReason::Oversize => once(udp(0, 1, 53, &[0; 4400])),
        DropReason::BadFcs => {
            net.switches[0].ingress_damaged(PortId(0), data(0, 1, 7, 0), &mut net.sinks[0]);
            net
        }
        DropReason::UnknownEthertype => once(changed(12, &[0x88, 0xcc])),
        DropReason::RoceV1 => once(changed(12, &[0x89, 0x15])),
        DropReason::BadIpHeader => once(changed(14, &[0x44])),
        DropReason::Truncated => once(changed(16, &[0x7f, 0xff])),
        DropReason::BadUdpLength => once(changed(38, &[0, 7])),
        DropReason::BthCut => once(udp(0, 1, ROCE_PORT, &[0; 15])),
        DropReason::TooManyExtensions => once(ipv6_with_extensions(5)),
        DropReason::NotForUs => once(changed(0, &[2, 9, 9, 9, 9, 9])),
        DropReason::Multicast => once(changed(0, &[0xff; 6])),
        DropReason::ArpIgnored => once(changed(12, &[0x08, 0x06])),
        DropReason::DiscoveryIgnored => {
            let mut frame = solicitation(host_mac(0), host(0, true), host(1, true));
            frame.0[57] ^= 1;
            once(frame)
        }
        DropReason::NoService => {
            let mut net = Net::new(with_addresses, false);
            net.send(0, probe(0, gateway(0, false), 9));
            net
        }
        DropReason::SpoofedSource => once(changed(26, &[10, 2, 0, 1])),
        DropReason::NoRoute => once(changed(30, &[11, 0, 0, 1])),
        DropReason::Transit => {
            let mut frame = data(0, 2, 7, 0);
            ethernet::set_addresses(&mut frame.0, mac(1, 2), mac(LEAVES + 1, 2));
            net.receive(1, 2, frame);
            net
        }
        DropReason::UnresolvedNeighbor => {
            let mut net = Net::new(
                |config| config.hosts.iter_mut().for_each(|host| host.mac = None),
                false,
            );
            net.send(0, data(0, 1, 7, 0));
            net.run(10_000, &mut perfect);
            net
        }
        DropReason::TtlExpired => once(changed(22, &[1])),
        DropReason::NoUplink => {
            for spine in 0..SPINES {
                net.set_link(0, spine + 1, false);
            }
            net.send(0, data(0, 1, 7, 0));
            net
        }
        DropReason::LinkDown => {
            net.set_link(1, 0, false);
            net.send(0, data(0, 1, 7, 0));
            net.run(10_000, &mut perfect);
            net
        }
        DropReason::TailDrop => {
            let mut net = Net::new(|config| config.queue.limit_bytes = 1000, false);
            (0..100).for_each(|n| net.send(0, data(0, 1, 7, n)));
            net
        }
        DropReason::ReserveFull => {
            // Each packet is a window of its own: an uplink that sends nothing has four messages of each.
            let mut net = Net::new(|config| config.queue.limit_bytes = 1000, false);
            for qpn in 1..100 {
                net.send(0, announcement(0, 1, qpn, 0, 1));
                net.send(0, data(0, 1, qpn, 0));
                // Colours rest meanwhile.
                net.now = net.now.plus(100_000);
            }
            net
        }
        DropReason::QueueMemory => {
            let mut net = Net::new(|config| config.queue.packets_max = 2, false);
            (0..3).for_each(|n| net.send(0, data(0, 1, 7, n)));
            net
        }
        DropReason::HandOffFull => {
            // Another lcore has the uplinks, and does not take what is for them.
            (1..=SPINES).for_each(|port| net.switches[0].set_choked(PortId(port), true));
            net.send(0, data(0, 1, 7, 0));
            net
        }
        DropReason::SpreadFull => {
            let frame = data(0, 1, 7, 0);
            net.switches[0].ingress_refused(PortId(0), frame, reason, &mut net.sinks[0]);
            net
        }
        DropReason::BadMessage => once(udp(0, 1, message::DEFAULT_PORT, b"SPCK")),
        DropReason::ForgedMessage => {
            let mut header = host_header(MessageKind::Open, 7, 0, 10);
            header.flags = FLAG_SWITCH;
            once(host_message(0, 1, &header))
        }
    }
}

/// Fault: the switch holds as many packets as it may
/// Forwarding: others go on
/// Verdicts: drops in own queues are no evidence
/// Counter: `queue-memory`
/// Right again: at once
#[test]
fn every_drop_reason_is_provoked_and_counted_once() {
    for &reason in DropReason::ALL {
        let net = after(reason);
        net.assert_conserved();
        if reason == DropReason::MultiSegment {
            // No frame of the fabric is split: a switch of its own has dropped that one.
            continue;
        }
        let counted: u64 = (0..LEAVES + SPINES).map(|s| net.dropped(s, reason)).sum();
        let discarded = net.sinks.iter().flat_map(|sink| &sink.discarded);
        let told = discarded.filter(|&&r| r == reason).count() as u64;
        assert!(counted > 0, "nothing was dropped as {}", reason.name());
        assert_eq!(told, counted, "{}: the driver is told each", reason.name());
    }
}

/// Announces and sends `packets` from leaf 0 to leaf 1.
fn flow(net: &mut Net, packets: u32, link: &mut Link<'_>) {
    net.send(0, announcement(0, 1, 7, 100, u64::from(packets)));
    for n in 0..packets {
        net.send(0, data(0, 1, 7, 100 + n));
        net.run(2_000, link);
    }
    net.run(200_000, link);
}

/// A fabric in which `note` was counted.
fn noting(note: Note) -> Net {
    let mut net = Net::new(|_| {}, false);
    match note {
        Note::Roce
        | Note::Marked
        | Note::Counted
        | Note::Announced
        | Note::WindowsOpened
        | Note::WindowsClosed
        | Note::WindowsReported
        | Note::MessagesRepeated => flow(&mut net, 20, &mut perfect),
        Note::ReservedOpcode => net.send(0, roce(0, 1, 7, 0, Opcode(0x1f))),
        Note::Fragments => net.send(0, changed(20, &[0x20])),
        Note::MarksCleared => net.send(0, changed(46, &[3])),
        Note::LaterCopies => {
            net.send(0, announcement(0, 1, 7, 100, 20));
            (0..2).for_each(|_| net.send(0, data(0, 1, 7, 100)));
        }
        Note::FlowsFound => {
            net = Net::new(
                |config| {
                    config.measurement.windows = WindowPlan {
                        is_off: false,
                        spine_packets: 10,
                        finds_flows: true,
                        silence_ns: 1_000_000,
                        is_narrow: false,
                    }
                },
                false,
            );
            (0..100).for_each(|n| net.send(0, data(0, 1, 7, n)));
        }
        Note::CounterOverflow => {
            net = Net::new(|config| config.measurement.windows.is_narrow = true, false);
            net.send(0, announcement(0, 1, 7, 0, 1 << 20));
            net.send(0, data(0, 1, 7, 0));
            net.send(0, data(0, 1, 7, (1 << 20) - 1));
            // Without a close, N is all that is known.
            net.run(200_000, &mut |_, _, frame| {
                message_of(frame).is_none_or(|header| header.kind != MessageKind::Close)
            });
        }
        Note::PsnOutside => {
            net.send(0, announcement(0, 1, 7, 100, 20));
            net.send(0, data(0, 1, 7, 99));
        }
        Note::PsnsSkipped => {
            net.send(0, announcement(0, 1, 7, 100, 20));
            net.send(0, data(0, 1, 7, 103));
        }
        Note::WindowsWrapped => {
            net.send(0, announcement(0, 1, 7, 0xff_ffff, 2));
            for psn in [0xff_ffff, 0] {
                net.send(0, data(0, 1, 7, psn));
            }
        }
        Note::LastMissing => flow(&mut net, 20, &mut |_, _, frame| {
            !is_marked(frame) || packet::bth::psn(&frame.0, 42).number() != 119
        }),
        Note::WithoutClose => flow(&mut net, 20, &mut |_, _, frame| {
            message_of(frame).is_none_or(|header| header.kind != MessageKind::Close)
        }),
        Note::WindowsPartial => flow(&mut net, 20, &mut |_, _, frame| {
            message_of(frame).is_none_or(|header| header.kind != MessageKind::Open)
        }),
        Note::ThresholdsLate => net.apply(
            1,
            Command::Threshold {
                row: 0,
                generation: 1,
                epoch: 1,
                threshold: 5,
            },
        ),
        Note::CountedLate => {
            let mut held = None;
            let mut link = |from: u16, to: u16, frame: &Frame| {
                let holds = to == 1 && is_marked(frame) && held.is_none();
                if holds {
                    held = Some((from - LEAVES + 1, frame.clone()));
                }
                !holds
            };
            net.send(0, announcement(0, 1, 7, 100, 20));
            (0..20).for_each(|n| net.send(0, data(0, 1, 7, 100 + n)));
            while net.sinks[1].windows.is_empty() {
                net.run(1_000, &mut link);
            }
            let (port, frame) = held.unwrap();
            net.receive(1, port, frame);
        }
        Note::FlowTableFull => {
            net = Net::new(|config| config.measurement.rows_max = 1, false);
            for from in [0, 2] {
                net.send(from, announcement(from, 1, 7, 100, 20));
                net.send(from, data(from, 1, 7, 100));
            }
            net.run(10_000, &mut perfect);
        }
        Note::AnnouncementReplaced => {
            for qpn in 7..10 {
                net.send(0, announcement(0, 1, qpn, 100, 20));
            }
        }
        Note::AnnouncementUseless => net.send(0, announcement(0, 1, 7, 100, 0)),
        Note::Withdrawn => {
            net.send(0, announcement(0, 1, 7, 100, 20));
            let header = host_header(MessageKind::Withdraw, 7, 0, 0);
            net.send(0, host_message(0, 1, &header));
        }
        Note::WindowsCapped => {
            net = Net::new(|config| config.measurement.window_ns_max = 10_000, false);
            flow(&mut net, 20, &mut perfect);
        }
        Note::ColourClash => {
            net.send(0, announcement(0, 1, 7, 100, 1000));
            for n in 0..50 {
                net.send(0, data(0, 1, 7, 100 + n));
                net.run(2_000, &mut perfect);
            }
            net.restart(0, |_| {});
            net.send(0, announcement(0, 1, 7, 150, 50));
            net.run(10_000, &mut perfect);
        }
        Note::ClosesUnknown => flow(&mut net, 20, &mut |_, _, frame| {
            message_of(frame).is_some_and(|header| header.kind == MessageKind::Close)
        }),
        Note::WindowsUnnamed => {
            net = Net::new(|config| config.measurement.window_packets_max = 50, false);
            flow(&mut net, 300, &mut |_, _, frame| {
                message_of(frame).is_none_or(|header| header.epoch > 2)
            });
        }
        Note::RowsExpired => {
            net = Net::new(|config| config.measurement.row_ns_max = 100_000, false);
            net.send(0, announcement(0, 1, 7, 100, 20));
            net.run(300_000, &mut perfect);
        }
        Note::ReportsLost => {
            net.sinks[1].is_control_stuck = true;
            flow(&mut net, 20, &mut perfect);
        }
        Note::MessagesUnsent => {
            net.sinks[0].is_out_of_memory = true;
            flow(&mut net, 20, &mut perfect);
        }
        Note::LinkStateChanges => {
            net = Net::new(|config| config.link_state_ns = Some(10_000), false);
            let port = PortId(1);
            net.apply(
                LEAVES,
                Command::SetEnabled {
                    port,
                    enabled: false,
                },
            );
            net.run(50_000, &mut perfect);
        }
        Note::ArpAnswered => {
            net.send(0, arp_request(host_mac(0), "10.0.0.1", "10.1.0.1"));
        }
        Note::DiscoveryAnswered | Note::RouterSolicitations | Note::EchoAnswered => {
            net = Net::new(with_addresses, false);
            let frames = [
                solicitation(host_mac(0), host(0, true), host(1, true)),
                router_solicitation(host_mac(0), address("fe80::1")),
                ping(0, gateway(0, false), 64, 1),
            ];
            frames.into_iter().for_each(|frame| net.send(0, frame));
        }
        Note::NeighborsAsked | Note::NeighborsFull => {
            net = Net::new(with_prefixes, false);
            for n in 0..9 {
                let from = format!("10.0.9.{n}");
                net.send(0, arp_request(host_mac(0), &from, "10.0.0.254"));
            }
            net.now = net.now.plus(1_000_000);
            net.send(
                0,
                frame(0, host(0, false), address("10.0.9.77"), 9, 132, &[0; 8]),
            );
        }
        Note::IcmpErrorsSent | Note::IcmpRateLimited => {
            net = Net::new(with_addresses, false);
            (0..200).for_each(|_| net.send(0, probe(0, host(1, false), 1)));
        }
        Note::IcmpUnsent => {
            net = Net::new(with_addresses, false);
            net.sinks[0].is_out_of_memory = true;
            net.send(0, probe(0, host(1, false), 1));
        }
        Note::EcnMarked => {
            net = Net::new(
                |config| {
                    let ecn = EcnConfig {
                        kmin_bytes: 0,
                        kmax_bytes: 0,
                        pmax_ppm: 0,
                        at_rate_bps: None,
                    };
                    config.queue.ecn = [Some(ecn); 8];
                },
                false,
            );
            (0..100).for_each(|n| net.send(0, data(0, 1, 7, n)));
        }
        Note::Resprayed => {
            (0..100).for_each(|n| net.send(0, data(0, 1, 7, n)));
            net.set_link(0, 1, false);
        }
    }
    net
}

#[test]
fn every_note_is_provoked() {
    for &note in Note::ALL {
        let net = noting(note);
        net.assert_conserved();
        let counted: u64 = (0..LEAVES + SPINES).map(|s| net.noted(s, note)).sum();
        assert!(counted > 0, "{} was not counted", note.name());
    }
}

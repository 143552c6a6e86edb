//! Counters of one host: plain numbers that only grow; readers take differences.

/// What a host has sent, received, repaired and refused. Units are packets unless named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Data packets sent (SEND, WRITE, answers to READs), retransmissions included.
    pub sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// READ requests sent, repeated ones included.
    pub read_requests_sent: u64,
    /// Packets of answers to READs sent, which [`Counters::sent`] counts as well.
    pub responses_sent: u64,
    /// Flows announced by an `open` message.
    pub announced: u64,
    /// Announced flows whose connection failed, withdrawn by a message.
    pub withdrawn: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Negative acknowledgements sent.
    pub naks_sent: u64,
    /// Receiver-not-ready NAKs sent.
    pub rnr_naks_sent: u64,
    /// Congestion notifications sent.
    pub cnps_sent: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Flows completed.
    pub flows_completed: u64,
    /// Connections that gave up.
    pub qps_failed: u64,

    /// Frames handed to the host, whatever they were.
    pub frames_received: u64,
    /// Data packets accepted, each once.
    pub received: u64,
    /// Payload bytes accepted, each once.
    pub received_bytes: u64,
    /// Packets of answers to READs, which [`Counters::received`] counts as well.
    pub responses_received: u64,
    /// Immediate data received.
    pub immediates: u64,
    /// Data packets that had arrived before: their retransmission was spurious.
    pub spurious: u64,
    /// New data packets that arrived behind a later one (go-back-N: ahead of a missing one, and
    /// dropped).
    pub out_of_order: u64,
    /// How far behind the latest such a packet was at most.
    pub out_of_order_distance_max: u64,
    /// Acknowledgements that moved the sender forward.
    pub acks_received: u64,
    /// Acknowledgements that said nothing new.
    pub acks_stale: u64,
    /// Acknowledgements or requests for packets that were never sent.
    pub acks_beyond_sent: u64,
    /// Requests for a packet, obeyed.
    pub naks_received: u64,
    /// Requests not obeyed: for what is acknowledged, requested already or just sent again, or
    /// beyond the table of repairs.
    pub naks_ignored: u64,
    /// Receiver-not-ready NAKs, obeyed.
    pub rnr_naks_received: u64,
    /// Fatal NAKs and reserved syndromes: this transport causes none, so they are not believed.
    pub naks_unknown: u64,
    /// Frames with ECN congestion experienced.
    pub ce_marked: u64,
    /// Congestion notification packets.
    pub cnps_received: u64,
    /// Congestion notifications that cut a rate.
    pub rate_cuts: u64,
    /// Payload that is not what was sent, or a write to the wrong place.
    pub payload_errors: u64,
    /// Segments of background traffic sent, answers not counted.
    pub background_sent: u64,
    /// Segments of background traffic received.
    pub background_received: u64,
    /// Segments of background traffic sent and known to be lost.
    pub background_lost: u64,

    /// Frames that do not parse.
    pub bad_frame: u64,
    /// Packets to another address.
    pub not_ours: u64,
    /// ARP, plain IP, fragments: not for this transport.
    pub not_roce: u64,
    /// spraycheck's messages, which hosts ignore.
    pub messages: u64,
    /// Wrong ICRC.
    pub bad_icrc: u64,
    /// No connection of that number.
    pub unknown_qp: u64,
    /// Right connection, wrong sender.
    pub wrong_source: u64,
    /// To a connection that has failed.
    pub failed_qp: u64,
    /// An opcode or transport version that this transport does not take.
    pub bad_opcode: u64,
    /// A payload length that the opcode forbids, or a header that is cut.
    pub bad_length: u64,
    /// Data beyond the receive window.
    pub beyond_window: u64,
    /// Messages for which no receive request was posted.
    pub not_ready: u64,
    /// READ requests beyond the table of those under way, or longer than the receive window.
    pub reads_refused: u64,
    /// Answers to a READ that nobody asked for, or not of the length that was asked for.
    pub responses_unknown: u64,
}

impl Counters {
    /// Every counter with its name, in the order of their declaration.
    pub fn named(&self) -> [(&'static str, u64); 50] {
        // Naming every field makes a new one an error here until it is listed.
        let Counters {
            sent,
            sent_bytes,
            retransmitted,
            read_requests_sent,
            responses_sent,
            announced,
            withdrawn,
            acks_sent,
            naks_sent,
            rnr_naks_sent,
            cnps_sent,
            timeouts,
            flows_completed,
            qps_failed,
            frames_received,
            received,
            received_bytes,
            responses_received,
            immediates,
            spurious,
            out_of_order,
            out_of_order_distance_max,
            acks_received,
            acks_stale,
            acks_beyond_sent,
            naks_received,
            naks_ignored,
            rnr_naks_received,
            naks_unknown,
            ce_marked,
            cnps_received,
            rate_cuts,
            payload_errors,
            background_sent,
            background_received,
            background_lost,
            bad_frame,
            not_ours,
            not_roce,
            messages,
            bad_icrc,
            unknown_qp,
            wrong_source,
            failed_qp,
            bad_opcode,
            bad_length,
            beyond_window,
            not_ready,
            reads_refused,
            responses_unknown,
        } = *self;
        [
            ("sent", sent),
            ("sent_bytes", sent_bytes),
            ("retransmitted", retransmitted),
            ("read_requests_sent", read_requests_sent),
            ("responses_sent", responses_sent),
            ("announced", announced),
            ("withdrawn", withdrawn),
            ("acks_sent", acks_sent),
            ("naks_sent", naks_sent),
            ("rnr_naks_sent", rnr_naks_sent),
            ("cnps_sent", cnps_sent),
            ("timeouts", timeouts),
            ("flows_completed", flows_completed),
            ("qps_failed", qps_failed),
            ("frames_received", frames_received),
            ("received", received),
            ("received_bytes", received_bytes),
            ("responses_received", responses_received),
            ("immediates", immediates),
            ("spurious", spurious),
            ("out_of_order", out_of_order),
            ("out_of_order_distance_max", out_of_order_distance_max),
            ("acks_received", acks_received),
            ("acks_stale", acks_stale),
            ("acks_beyond_sent", acks_beyond_sent),
            ("naks_received", naks_received),
            ("naks_ignored", naks_ignored),
            ("rnr_naks_received", rnr_naks_received),
            ("naks_unknown", naks_unknown),
            ("ce_marked", ce_marked),
            ("cnps_received", cnps_received),
            ("rate_cuts", rate_cuts),
            ("payload_errors", payload_errors),
            ("background_sent", background_sent),
            ("background_received", background_received),
            ("background_lost", background_lost),
            ("bad_frame", bad_frame),
            ("not_ours", not_ours),
            ("not_roce", not_roce),
            ("messages", messages),
            ("bad_icrc", bad_icrc),
            ("unknown_qp", unknown_qp),
            ("wrong_source", wrong_source),
            ("failed_qp", failed_qp),
            ("bad_opcode", bad_opcode),
            ("bad_length", bad_length),
            ("beyond_window", beyond_window),
            ("not_ready", not_ready),
            ("reads_refused", reads_refused),
            ("responses_unknown", responses_unknown),
        ]
    }
}

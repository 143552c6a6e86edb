//! Tests of the fault syntax.

use proptest::prelude::*;

use super::*;

fn spec(text: &str) -> Result<Fault, String> {
    text.parse()
        .map(|FaultSpec(fault)| fault)
        .map_err(|e: FaultError| e.to_string())
}

/// Goal: every form of the interface has the meaning it says, and is shown as it was written.
#[test]
fn every_form_is_read_and_shown() {
    for (text, fault) in [
        ("drop=0.01", Fault::Drop(0.01)),
        ("corrupt=0.001", Fault::Corrupt(0.001)),
        (
            "burst=0.0001,0.1,0.5",
            Fault::Burst {
                enter: 0.0001,
                exit: 0.1,
                loss: 0.5,
            },
        ),
        ("delay=5us", Fault::Delay { nanos: 5_000 }),
        ("down", Fault::Down),
        (
            "flap=100ms,5ms",
            Fault::Flap {
                period_ns: 100_000_000,
                down_ns: 5_000_000,
            },
        ),
        (
            "match=18:+100,action=drop",
            Fault::Match {
                qpn: Qpn(18),
                nth: 100,
                occurrence: 1,
                action: Action::Drop,
            },
        ),
        (
            "match=18:+0:2,action=ecn",
            Fault::Match {
                qpn: Qpn(18),
                nth: 0,
                occurrence: 2,
                action: Action::Ecn,
            },
        ),
        (
            "match=16777215:+7:3,action=corrupt",
            Fault::Match {
                qpn: Qpn(16_777_215),
                nth: 7,
                occurrence: 3,
                action: Action::Corrupt,
            },
        ),
    ] {
        assert_eq!(spec(text), Ok(fault));
        assert_eq!(FaultSpec(fault).to_string(), text);
    }
    assert_eq!(spec("drop=0.5%"), Ok(Fault::Drop(0.005)));
}

/// Goal: `none` is no fault, a link one, a cable two.
#[test]
fn a_cable_has_two_links() {
    let names = |text: &str| -> Vec<String> {
        read_faults(text)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(names("none"), [""; 0]);
    assert_eq!(names("spine5>leaf3:drop=0.01"), ["spine5>leaf3:drop=0.01"]);
    assert_eq!(
        names("leaf3-spine5:down"),
        ["leaf3>spine5:down", "spine5>leaf3:down"]
    );
}

/// Goal: each mistake is answered with what is wrong and what to write.
#[test]
fn mistakes_are_explained() {
    for (text, why) in [
        (
            "leaf3>spine5",
            "write LINK:SPEC like leaf3>spine5:drop=0.01",
        ),
        ("leaf3>leaf4:down", "\"leaf3>leaf4\" is no link"),
        ("leaf3-leaf4:down", "\"leaf3-leaf4\" is no link"),
        ("leaf3>spine5:drop", "write drop=0.01"),
        ("leaf3>spine5:drop=2", "it is more than 1"),
        ("leaf3>spine5:drpo=0.1", "did you mean \"drop\"?"),
        ("leaf3>spine5:explode", "write one of drop=0.01"),
        ("leaf3>spine5:delay=5", "its unit is missing"),
        ("leaf3>spine5:down=1", "write down, without a value"),
        (
            "leaf3>spine5:burst=0.1,0.2",
            "write burst=P_ENTER,P_EXIT,LOSS",
        ),
        ("leaf3>spine5:flap=5ms", "write flap=PERIOD,DOWN"),
        (
            "leaf3>spine5:flap=5ms,10ms",
            "is down for 10ms of every 5ms",
        ),
        ("leaf3>spine5:match=18:+1", "no action"),
        (
            "leaf3>spine5:match=18:1,action=drop",
            "the packet is written +N",
        ),
        (
            "leaf3>spine5:match=18:++1,action=drop",
            "the packet is written +N",
        ),
        (
            "leaf3>spine5:match=18:+1:0,action=drop",
            "the occurrence counts from 1",
        ),
        (
            "leaf3>spine5:match=18:+1,action=eat",
            "none of drop, ecn, corrupt",
        ),
        (
            "leaf3>spine5:match=16777216:+1,action=drop",
            "a QPN has 24 bits",
        ),
        (
            "leaf3>spine5:match=x:+1,action=drop",
            "the QPN is no number",
        ),
        (
            "leaf3>spine5:match=18:+1:1:1,action=drop",
            "too many colons",
        ),
    ] {
        let message = read_faults(text).unwrap_err().to_string();
        assert!(message.contains(why), "{text}: {message}");
    }
}

/// Goal: only what loses packets unseen is there to be found.
#[test]
fn lossy_is_what_loses_unseen() {
    for (text, lossy) in [
        ("drop=0.01", true),
        ("drop=0", false),
        ("corrupt=0.1", true),
        ("burst=0.1,0.1,0.5", true),
        ("burst=0.1,0.1,0", false),
        ("match=18:+0,action=drop", true),
        ("match=18:+0,action=ecn", false),
        ("delay=5us", false),
        ("down", false),
        ("flap=10ms,1ms", false),
    ] {
        let fault: LinkFault = format!("leaf0>spine0:{text}").parse().unwrap();
        assert_eq!(fault.is_lossy(), lossy, "{text}");
    }
}

proptest! {
    /// Goal: whatever the numbers, the text of a fault reads back as the same fault.
    #[test]
    fn shown_text_reads_back(
        p in 0.0f64..=1.0, q in 0.0f64..=1.0, time: u64, qpn in 0u32..1 << 24, nth: u64, which in 0usize..6,
    ) {
        let fault = match which {
            0 => Fault::Drop(p),
            1 => Fault::Corrupt(p),
            2 => Fault::Burst { enter: p, exit: q, loss: p },
            3 => Fault::Delay { nanos: time },
            4 => Fault::Flap { period_ns: time.max(2), down_ns: time.max(2) / 2 },
            _ => Fault::Match { qpn: Qpn(qpn), nth, occurrence: (time as u32).max(1), action: Action::Drop },
        };
        prop_assert_eq!(spec(&FaultSpec(fault).to_string()), Ok(fault));
    }

    /// Goal: no text makes it panic.
    #[test]
    fn any_text_is_read_or_refused(text in "(leaf1[>-]spine1:)?(drop|burst|flap|match|delay)?=?[0-9:+,.a-z=]{0,20}") {
        let _ = read_faults(&text);
    }
}

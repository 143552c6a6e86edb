//! Calls that a host refuses: bounds are kept, and the reason names the number.

mod wire;

use endpoint::workload::{Workload, WorkloadConfig, WorkloadKind};
use endpoint::{BitRate, Flow, Host, HostConfig, OpenError, PathMtu, PostError, QpConfig, QpId};
use packet::{Address, Psn, Qpn};
use wire::address;

const FLOW: Flow = Flow {
    verb: endpoint::Verb::Write,
    flow_id: 1,
    bytes: 1,
    message_bytes: 1,
    announce: false,
};

fn qp(local: u32) -> QpConfig {
    QpConfig {
        local_qpn: Qpn(local),
        remote_qpn: Qpn(17),
        remote_address: address(1),
        udp_source_port: 0xc000,
        first_psn: Psn::new(0),
        remote_first_psn: Psn::new(0),
    }
}

/// Goal: a host holds no more than it was built for.
#[test]
fn bounds_are_kept() {
    let config = HostConfig {
        qps_max: 2,
        flows_per_qp_max: 3,
        ..wire::config(0)
    };
    let mut host = Host::new(config).unwrap();
    assert_eq!(host.open_qp(qp(1)), Err(OpenError::QpnReserved(1)));
    assert_eq!(
        host.open_qp(qp(1 << 24)),
        Err(OpenError::QpnReserved(1 << 24))
    );
    let other_family = QpConfig {
        remote_address: Address(1),
        ..qp(17)
    };
    assert_eq!(host.open_qp(other_family), Err(OpenError::OtherFamily));
    assert_eq!(host.open_qp(qp(17)), Ok(QpId(0)));
    assert_eq!(host.open_qp(qp(17)), Err(OpenError::QpnTaken(17)));
    assert_eq!(host.open_qp(qp(18)), Ok(QpId(1)));
    assert_eq!(host.open_qp(qp(19)), Err(OpenError::Full(2)));
    let empty = Flow { bytes: 0, ..FLOW };
    assert_eq!(host.post(0, QpId(0), empty), Err(PostError::BadSize));
    assert_eq!(
        host.post(0, QpId(2), FLOW),
        Err(PostError::UnknownQp(QpId(2)))
    );
    for _ in 0..3 {
        assert_eq!(host.post(0, QpId(0), FLOW), Ok(()));
    }
    assert_eq!(host.post(0, QpId(0), FLOW), Err(PostError::Full(QpId(0))));
    assert_eq!(host.post(0, QpId(1), FLOW), Ok(()));
}

/// Goal: a configuration that cannot work is refused by name.
#[test]
fn configurations_are_checked() {
    let refused = |change: &dyn Fn(&mut HostConfig)| {
        let mut config = wire::config(0);
        change(&mut config);
        Host::new(config).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(&|c| c.window_packets = 0).key, "window_packets");
    assert_eq!(refused(&|c| c.window_packets = 5000).key, "window_packets");
    assert_eq!(
        refused(&|c| c.receive_window_packets = 100).key,
        "receive_window_packets"
    );
    assert_eq!(
        refused(&|c| c.ack_every_packets = 0).key,
        "ack_every_packets"
    );
    assert_eq!(refused(&|c| c.qps_max = 0).key, "qps_max");
    let error = refused(&|c| c.dscp = 64).to_string();
    assert_eq!(error, "dscp is 64; it must be 0 to 63");
    assert!(
        PathMtu::new(1500).is_none() && PathMtu::new(8192).is_none() && BitRate::new(0).is_none()
    );
    let workload = WorkloadConfig {
        kind: WorkloadKind::AllToAll,
        hosts: 8,
        hosts_per_leaf: 1,
        bytes: 1 << 20,
        qps: 2,
        verb: endpoint::Verb::Write,
        ring: endpoint::workload::RingAccounting::Steps,
        iterations: 1,
        message_bytes: 1 << 20,
        announce: true,
        seed: 1,
    };
    let refused = |config| Workload::new(config).map(|_| ()).unwrap_err().key;
    assert!(Workload::new(workload).is_ok());
    assert_eq!(
        refused(WorkloadConfig {
            hosts_per_leaf: 3,
            ..workload
        }),
        "hosts"
    );
    assert_eq!(
        refused(WorkloadConfig {
            hosts_per_leaf: 8,
            ..workload
        }),
        "hosts"
    );
    assert_eq!(refused(WorkloadConfig { qps: 0, ..workload }), "qps");
    assert_eq!(
        refused(WorkloadConfig {
            bytes: 1,
            ..workload
        }),
        "bytes"
    );
    let error = "all2all".parse::<WorkloadKind>().unwrap_err();
    assert!(error.contains("all-to-all, ring-allreduce"), "{error}");
}

/// Goal: hosts can be moved to the thread that drives them.
#[test]
fn hosts_can_change_threads() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Host>();
    is_send::<endpoint::workload::Script>();
}

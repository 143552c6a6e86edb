//! Tests of metrics: what a scrape says, and that it is what Prometheus takes.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use super::*;
use crate::control::Devices;

fn source() -> Source {
    let mut shared = Shared::on(2, [2, 1]);
    shared.devices = Devices::of(|| vec![("net_null0".into(), "no-tag", 7)]);
    shared.lcores[0]
        .busy_ns
        .store(1_500_000_000, Ordering::Relaxed);
    shared.lcores[1].rounds.store(10, Ordering::Relaxed);
    shared.lcores[1].busy_rounds.store(4, Ordering::Relaxed);
    shared.findings.set(Found {
        windows: 3,
        tests: vec![("healthy", 5), ("failed", 1)],
        links: vec![("leaf0>spine1".into(), "convicted", 0.0123)],
        commands_refused: 0,
    });
    Source {
        switches: vec![
            ("leaf0".into(), vec!["host0".into(), "up0".into()]),
            ("spine0".into(), vec!["down0".into()]),
        ],
        versions: vec![("dpdk".into(), "DPDK \"22.11\"".into())],
        shared,
        drivers: Arc::new(|| vec![("net_null0".into(), "rx_good_packets".into(), 9)]),
    }
}

/// Goal: every family has its type and help, counters end in `_total`, no series is there twice, and
/// there are as many as switches, ports, queues, reasons and devices ask for.
#[test]
fn a_scrape_is_open_metrics() {
    let text = text(&registry(source()));
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in [
        "spraycheck_interface_in_pkts_total{switch=\"leaf0\",port=\"up0\"} 0",
        "spraycheck_interface_oper_status{switch=\"spine0\",port=\"down0\"} 0",
        "spraycheck_queue_len_bytes{switch=\"leaf0\",port=\"host0\",queue=\"7\"} 0",
        "spraycheck_queue_max_queue_len_bytes{switch=\"leaf0\",port=\"host0\"} 0",
        "spraycheck_queue_dropped_pkts_total{switch=\"leaf0\",port=\"host0\",queue=\"0\"} 0",
        "spraycheck_packets_total{switch=\"spine0\",fate=\"consumed\"} 0",
        "spraycheck_drops_total{switch=\"leaf0\",reason=\"tail-drop\"} 0",
        "spraycheck_lcore_seconds_total{lcore=\"1\",state=\"busy\"} 1.5",
        "spraycheck_lcore_rounds_total{lcore=\"2\",state=\"idle\"} 6",
        "spraycheck_device_drops_total{device=\"net_null0\",counter=\"no-tag\"} 7",
        "spraycheck_dpdk_xstats_total{device=\"net_null0\",counter=\"rx_good_packets\"} 9",
        "spraycheck_windows_total 3",
        "spraycheck_path_tests_total{state=\"failed\"} 1",
        "spraycheck_link_drop_rate_ratios{link=\"leaf0>spine1\",state=\"convicted\"} 0.0123",
        "spraycheck_build_info{part=\"dpdk\",version=\"DPDK \\\"22.11\\\"\"} 1",
    ] {
        assert!(
            text.lines().any(|other| other == line),
            "no {line} in\n{text}"
        );
    }
    let series = text.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = series
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect();
    let distinct: BTreeSet<&&str> = names.iter().collect();
    assert_eq!(names.len(), distinct.len(), "a series is there twice");
    let (ports, switches, lcores) = (3, 2, 2);
    let of_switch = 4 + 1 + pipeline::DropReason::ALL.len() + pipeline::Note::ALL.len();
    let of_port = 6 + 3 * 8 + 1;
    // One lcore of the two has told its time.
    let rest = 1 + 1 + 2 * lcores + 2 + 2 + 1 + 2 + 1 + 1;
    assert_eq!(names.len(), ports * of_port + switches * of_switch + rest);
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, _) = line.split_once(' ').unwrap();
        assert!(
            text.contains(&format!("# HELP {name} ")),
            "{name} has no help"
        );
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Goal: the server answers with the right media type, knows nothing else, refuses an address that is
/// taken, and gives it back when it ends, whoever is still connected.
#[test]
fn metrics_are_served() {
    let server = Server::start("127.0.0.1:0".parse().unwrap(), source(), || {}).unwrap();
    let address = server.address();
    let answer = get(address, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(
        answer.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{answer}"
    );
    assert!(answer.contains("# EOF"), "{answer}");
    assert!(get(address, "/etc/passwd").starts_with("HTTP/1.1 404"));
    let taken = Server::start(address, source(), || {}).expect_err("it is taken");
    let text = taken.to_string();
    assert!(
        text.contains("metrics.listen: cannot listen on 127.0.0.1:"),
        "{text}"
    );
    let _idle = TcpStream::connect(address).unwrap();
    drop(server);
    assert!(TcpStream::connect(address).is_err(), "it still listens");
}

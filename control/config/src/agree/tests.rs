//! Tests of files against each other: what one says of the other and is not so is named.

use std::path::Path;

use super::*;
use crate::FabricFile;

const FABRIC: &str = include_str!("../../../../docs/examples/fabric.toml");

/// Goal: each change of one generated file, that is sound by itself, is found beside the others, with
/// file, line and key.
#[test]
fn files_that_disagree_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let fabric = FabricFile::parse(Path::new("f.toml"), FABRIC).unwrap();
    for (role, from, to, message) in [
        (
            "spine1",
            "link_state = \"100ms\"",
            "link_state = \"50ms\"",
            "fabric.link_state: 50ms at spine1, 100ms at leaf0",
        ),
        (
            "leaf1",
            "message_port = 48791",
            "message_port = 48792",
            "fabric.message_port: 48792 at leaf1, 48791 at leaf0",
        ),
        ("leaf1", "role = \"leaf1\"", "role = \"leaf0\"", ""),
        (
            "spine0",
            "mac = \"02:00:00:02:00:01\"",
            "mac = \"02:00:00:02:00:09\"",
            "port[1].mac: 02:00:00:02:00:09 of spine0.down1 is not what leaf1.up0 expects, 02:00:00:02:00:01",
        ),
        (
            "spine0",
            "peer_mac = \"02:00:00:01:00:01\"",
            "peer_mac = \"02:00:00:01:00:07\"",
            "port[1].peer_mac: 02:00:00:01:00:07 is not the address of leaf1.up0, which is 02:00:00:01:00:01",
        ),
        (
            "spine1",
            "rate = \"1Gbps\"",
            "rate = \"2Gbps\"",
            "port[0].rate: 2Gbps of spine1.down0, 1Gbps of leaf0.up1",
        ),
        (
            "spine1",
            "mtu = 1500",
            "mtu = 1400",
            "port[0].mtu: frames of spine1.down0 have 1422 bytes, those of leaf0.up1 1522",
        ),
        (
            "spine1",
            "mtu = 1500",
            "mtu = 1500\nvlan = 7",
            "port[0].vlan: VLAN 7 at spine1.down0, no VLAN id at leaf0.up1",
        ),
        ("leaf1", "\"10.77.1.254\"", "\"10.77.0.254\"", ""),
        (
            "spine1",
            "\"10.77.255.2\"",
            "\"10.77.255.1\"",
            "gateway.addresses[0]: 10.77.255.1 at spine1 is already that at spine0",
        ),
        (
            "leaf1",
            "[measurement]",
            "[measurement]\nprotocol = \"paper\"\nmark = \"all\"",
            "",
        ),
    ] {
        let mut paths = Vec::new();
        for switch in &fabric.switches {
            let path = folder.path().join(format!("{}.toml", switch.role));
            let text = if switch.role == role {
                let text = switch.text.replacen(from, to, 1);
                assert_ne!(text, switch.text, "{role} has no {from}");
                text
            } else {
                switch.text.clone()
            };
            std::fs::write(&path, text).unwrap();
            paths.push(path);
        }
        let checked = paths
            .iter()
            .map(|path| SwitchSpec::read(path))
            .collect::<Result<Vec<_>, _>>()
            .and_then(|specs| complete(&specs.iter().collect::<Vec<_>>(), &paths));
        let error = checked.expect_err(to).to_string();
        let file = folder.path().join(format!("{role}.toml"));
        let place = error.strip_prefix(&format!("{}:", file.display()));
        let place = place.and_then(|rest| rest.split_once(": "));
        let is_right = place
            .is_some_and(|(line, rest)| line.parse::<usize>().is_ok() && rest.starts_with(message));
        if !is_right {
            wrong.push(format!("{to}\n gives {error}\n not   {message}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Tests of switches that share a process: what fits is gathered, what clashes is named.

use super::*;

/// A spine of two leaves on one device, with VLAN ids from `vlan` on.
fn spine(index: u16, device: &str, vlan: u16, more: &str) -> String {
    format!(
        r#"
name = "spine{index}"
role = "spine{index}"
[fabric]
leaves = 2
spines = 2
[[port]]
name = "d0"
kind = "downlink"
peer = "leaf0"
device = "{device}"
vlan = {vlan}
mac = "02:00:00:00:0{index}:01"
peer_mac = "02:00:00:00:0{index}:02"
rate = "10Gbps"
[[port]]
name = "d1"
kind = "downlink"
peer = "leaf1"
device = "{device}"
vlan = {}
mac = "02:00:00:00:0{index}:03"
peer_mac = "02:00:00:00:0{index}:04"
rate = "10Gbps"
[[route]]
prefix = "10.0.0.0/16"
leaf = "leaf0"
[[route]]
prefix = "10.1.0.0/16"
leaf = "leaf1"
{more}
"#,
        vlan + 1
    )
}

fn set(texts: &[String]) -> Result<SwitchSet, ConfigError> {
    let paths: Vec<PathBuf> = (0..texts.len())
        .map(|index| format!("{index}.toml").into())
        .collect();
    let specs = texts.iter().zip(&paths);
    let specs: Result<Vec<_>, _> = specs
        .map(|(text, path)| SwitchSpec::parse(path, text))
        .collect();
    SwitchSet::new(specs?, &paths)
}

/// Goal: the ports of two switches on one device are gathered, and memory is that of both.
#[test]
fn two_switches_share_a_device() {
    let rate = "[[device]]\nname = \"net_ring0\"\nrate = \"25Gbps\"\nlcore = 0\n";
    let set = set(&[
        spine(0, "net_ring0", 100, rate),
        spine(1, "net_ring0", 200, "[eal]\nsize = \"64MiB\"\n"),
    ])
    .unwrap();
    assert_eq!(set.devices.len(), 1);
    let device = &set.devices[0];
    let lanes: Vec<_> = device
        .lanes
        .iter()
        .map(|l| (l.switch, l.port, l.vlan))
        .collect();
    assert_eq!(
        lanes,
        [
            (0, 0, Some(100)),
            (0, 1, Some(101)),
            (1, 0, Some(200)),
            (1, 1, Some(201))
        ]
    );
    assert_eq!(device.rate, Some(Rate::new(25_000_000_000)));
    assert_eq!(device.lcore, Some(0));
    assert_eq!(set.eal.size, Bytes::new((256 + 64) << 20));
}

/// Goal: every clash of two files is told with the file, the key and the other side.
#[test]
fn clashes_are_named() {
    let a = || spine(0, "net_ring0", 100, "");
    let say = |rate: &str| format!("[[device]]\nname = \"net_ring0\"\nrate = \"{rate}\"\n");
    for (texts, message) in [
        (
            vec![a(), spine(1, "net_ring0", 101, "")],
            "1.toml: spine1.d0.vlan: VLAN 101 of net_ring0 is already that of spine0.d1",
        ),
        (
            vec![a(), spine(1, "net_ring0,nodeaction=x", 200, "")],
            "1.toml: spine1.d0.device: \"net_ring0,nodeaction=x\" is \"net_ring0\" at spine0.d0",
        ),
        (
            vec![a(), a()],
            "1.toml: name: \"spine0\" is the name of another switch",
        ),
        (
            vec![
                spine(0, "net_ring0", 100, &say("20Gbps")),
                spine(1, "net_ring0", 200, &say("25Gbps")),
            ],
            "1.toml: device[0].rate: 25Gbps here, 20Gbps in another file",
        ),
        (
            vec![a(), spine(1, "net_ring1", 100, "[eal]\nlcores = 2\n")],
            "1.toml: eal.lcores: differs",
        ),
        (
            vec![spine(0, "net_ring0", 100, &say("5Gbps"))],
            "0.toml:33: device[0].rate: 5Gbps is less than the 10Gbps of port[0]",
        ),
        (
            vec![a().replace("vlan = 101", "")],
            "0.toml:16: port[1].vlan: net_ring0 is shared with port[0], and one of the two has no",
        ),
        (
            vec![a().replace("vlan = 101", "vlan = 100")],
            "0.toml:21: port[1].vlan: VLAN 100 of net_ring0 is already that of port[0]",
        ),
        (
            vec![a().replace("vlan = 101", "vlan = 4095")],
            "0.toml:21: port[1].vlan: 4095 is no VLAN id",
        ),
        (
            vec![spine(
                0,
                "net_ring0",
                100,
                "[eal]\nlcores = 2\ncpus = [1]\n",
            )],
            "0.toml:33: eal.cpus: 1 CPUs for 2 lcores",
        ),
        (
            vec![spine(
                0,
                "net_ring0",
                100,
                "[[device]]\nname = \"net_ring0\"\nlcore = 1\n",
            )],
            "device.lcore: lcore 1 of net_ring0 is not among the 1 of eal.lcores",
        ),
    ] {
        let error = set(&texts).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}\nis not\n{message}");
    }
}

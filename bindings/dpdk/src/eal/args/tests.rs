//! The argument vector, case by case. No EAL is started.

use super::*;

const NONE: FreeHugepages = FreeHugepages {
    pages: 0,
    page_bytes: 2 << 20,
};

fn free(mib: u64) -> FreeHugepages {
    FreeHugepages {
        pages: mib / 2,
        ..NONE
    }
}

/// The whole vector, in order, for a full configuration.
#[test]
fn full_line() {
    let config = EalConfig {
        program: "leaf".into(),
        lcores: vec![(0, 0), (1, 1), (2, 1)],
        main_lcore: 0,
        memory: Memory::NoHuge { mib: 64 },
        vdevs: vec!["net_null0,size=64".into()],
        pci: vec!["0000:03:00.0".into()],
        file_prefix: "leaf-1".into(),
        telemetry: false,
        log_level: LogLevel::Warning,
        extra: vec!["--no-hpet".into()],
    };
    assert_eq!(
        arguments(&config, NONE).unwrap().join(" "),
        "leaf --lcores=0@0,1@1,2@1 --main-lcore=0 --no-huge --no-shconf -m64 --file-prefix=leaf-1 \
         --allow=0000:03:00.0 --vdev=net_null0,size=64 --no-telemetry --log-level=*:warning \
         --no-hpet"
    );
}

/// Hugepages are used when enough are free, never together with --no-huge.
#[test]
fn auto_memory_follows_free_hugepages() {
    for (have, flag, other) in [
        (0, "--no-huge", "--in-memory"),
        (254, "--no-huge", "--in-memory"),
        (256, "--in-memory", "--no-huge"),
    ] {
        let line = arguments(&EalConfig::default(), free(have)).unwrap();
        assert!(line.iter().any(|a| a == flag), "{have} MiB: {line:?}");
        assert!(line.iter().all(|a| a != other), "{have} MiB: {line:?}");
        assert!(line.contains(&"-m256".to_owned()), "{line:?}");
    }
}

/// Demanded hugepages that are missing are refused with both numbers.
#[test]
fn missing_hugepages_are_an_error() {
    let config = EalConfig {
        memory: Memory::Hugepages { mib: 512 },
        ..EalConfig::default()
    };
    let message = arguments(&config, free(100)).unwrap_err().to_string();
    assert!(message.contains("need 512 MiB, have 100 MiB"), "{message}");
}

/// PCI is scanned only if a device is named.
#[test]
fn no_pci_unless_named() {
    let line = arguments(&EalConfig::default(), NONE).unwrap();
    assert!(line.contains(&"--no-pci".to_owned()), "{line:?}");
}

/// Each bad setting is named in its refusal.
#[test]
fn refusals_name_the_setting() {
    let base = EalConfig::default;
    let cases = [
        (
            EalConfig {
                main_lcore: 5,
                ..base()
            },
            "main lcore 5",
        ),
        (
            EalConfig {
                lcores: vec![(0, 0), (0, 1)],
                ..base()
            },
            "lcore 0 is listed twice",
        ),
        (
            EalConfig {
                lcores: vec![(0, 0), (4000, 1)],
                ..base()
            },
            "lcore 4000",
        ),
        (
            EalConfig {
                file_prefix: "a/b".into(),
                ..base()
            },
            "a/b",
        ),
        (
            EalConfig {
                vdevs: vec!["net_null0".into(), "net_null0,size=9".into()],
                ..base()
            },
            "`net_null0` is listed twice",
        ),
        (
            EalConfig {
                vdevs: vec![",size=9".into()],
                ..base()
            },
            "no usable name",
        ),
        (
            EalConfig {
                memory: Memory::Auto { mib: 0 },
                ..base()
            },
            "0 MiB",
        ),
    ];
    for (config, expected) in cases {
        let message = arguments(&config, NONE).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

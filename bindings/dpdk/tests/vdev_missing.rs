//! EAL says that it started although a device did not come up: `Eal::init` must not.
//!
//! A test binary of its own, because EAL starts once per process.

use dpdk::{Eal, EalConfig, Error, test_support};

/// The error names the device; EAL cannot be tried again afterwards.
#[test]
fn init_fails_and_names_the_device() {
    let device = "net_pcap0,rx_pcap=/nonexistent/in.pcap";
    let config = EalConfig {
        vdevs: vec!["net_null0,size=64".into(), device.into()],
        ..test_support::config()
    };
    let refused = Eal::init(config.clone()).unwrap_err();
    assert!(matches!(&refused, Error::DeviceMissing { device: named } if named == device));
    assert!(refused.to_string().contains(device), "{refused}");
    assert!(matches!(Eal::init(config), Err(Error::AlreadyStarted)));
}

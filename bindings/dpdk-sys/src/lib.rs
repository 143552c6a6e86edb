//! Raw DPDK: bindgen over pkg-config libdpdk and a C shim for its inline functions.

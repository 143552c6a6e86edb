//! The safe, thin layer over DPDK.

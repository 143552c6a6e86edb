//! The poll loop that drives the pipeline on DPDK.

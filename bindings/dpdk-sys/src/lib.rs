//! Raw DPDK: bindgen over pkg-config's libdpdk, and a C shim for its inline functions.
//!
//! Used by the `dpdk` crate alone; nothing else in the workspace should name it. What it
//! guarantees is small and worth having:
//!
//! - The headers, the shim's compiler flags and the linked libraries are those of one
//!   `libdpdk` (22.11 or newer), found by pkg-config.
//! - No DPDK structure has a layout here. `rte_mbuf`, `rte_mempool`, `rte_ring` and
//!   `rte_tel_data` are opaque; their fields, and those of the configuration and statistics
//!   structures, are touched in `shim/shim.c` only. A newer LTS needs a rebuild, not a port.
//! - Linking is shared and names the core libraries only: EAL loads the drivers by itself.
//!
//! Building needs `libdpdk-dev`, `libclang-dev`, `pkg-config` and a C compiler. A DPDK outside
//! the system's library path is found by `PKG_CONFIG_PATH` at build time and by
//! `LD_LIBRARY_PATH` at run time.

/// The generated part, kept in a module so that lints about C's naming stay inside.
mod bindings {
    #![allow(
        missing_docs,
        non_camel_case_types,
        non_snake_case,
        non_upper_case_globals,
        clippy::all,
        clippy::undocumented_unsafe_blocks,
        clippy::multiple_unsafe_ops_per_block
    )]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

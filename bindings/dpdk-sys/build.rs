//! Finds DPDK, compiles the C shim with DPDK's own flags and generates the raw bindings.
//!
//! Run by cargo. Guarantees that the shim, the bindings and the linked libraries all come from
//! the one `libdpdk` that pkg-config names, or stops with the Debian package that is missing.

use std::path::PathBuf;
use std::process::{Command, exit};

/// The oldest release whose API the shim is written for.
const OLDEST: &str = "22.11";

/// Only the core libraries are linked. EAL loads the drivers by itself, from the plugin folder
/// that was compiled into it, so no `rte_net_*` library appears here.
const LIBRARIES: [&str; 7] = [
    "rte_ethdev",
    "rte_mbuf",
    "rte_mempool",
    "rte_ring",
    "rte_eal",
    "rte_telemetry",
    "rte_kvargs",
];

/// DPDK functions that are real symbols with layout-free signatures. Everything else goes
/// through the shim.
const FUNCTIONS: &[&str] = &[
    "shim_.*",
    "rte_eal_(init|cleanup|remote_launch|hotplug_add|get_runtime_dir)",
    "rte_get_(main_lcore|next_lcore)",
    "rte_version(_year|_month)?",
    "rte_strerror",
    "rte_pktmbuf_(pool_create|free_bulk)",
    "rte_mempool_(free|in_use_count|avail_count)",
    "rte_ring_(create|free)",
    "rte_eth_dev_(start|stop|close|get_port_by_name|get_name_by_port|get_mtu|socket_id|set_link_up|set_link_down)",
    "rte_eth_(find_next|promiscuous_enable|promiscuous_disable|tx_done_cleanup)",
    "rte_telemetry_register_cmd",
    "rte_tel_data_(start_dict|string|add_dict_string|add_array_string)",
];

/// Numbers that DPDK fixes at its own build.
const CONSTANTS: &[&str] = &[
    "SHIM_.*",
    "RTE_VER_(YEAR|MONTH|MINOR)",
    "RTE_MAX_(LCORE|ETHPORTS)",
    "RTE_MEMPOOL_CACHE_MAX_SIZE",
    "RTE_PKTMBUF_HEADROOM",
    "RTE_ETH_NAME_MAX_LEN",
];

/// DPDK structures that Rust may point at and never look into.
const OPAQUE: [&str; 4] = ["rte_mbuf", "rte_mempool", "rte_ring", "rte_tel_data"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for file in ["shim.c", "shim.h", "bench.c", "bench.h", "wrapper.h"] {
        println!("cargo:rerun-if-changed=shim/{file}");
    }
    probe();
    let cflags = pkg_config_words(&["--cflags", "libdpdk"]);
    compile_shim(&cflags);
    link();
    generate_bindings(&cflags);
}

/// Stops the build with a message that says what to install.
fn give_up(message: &str) -> ! {
    eprintln!("\nerror: {message}\n");
    exit(1);
}

fn probe() {
    // Printing of link lines is off because `link` names the few libraries we want.
    let found = pkg_config::Config::new()
        .atleast_version(OLDEST)
        .cargo_metadata(false)
        .env_metadata(true)
        .probe("libdpdk");
    if let Err(reason) = found {
        give_up(&format!(
            "DPDK {OLDEST} or newer was not found: install `libdpdk-dev` and `pkg-config` \
             (Debian, Ubuntu), or point PKG_CONFIG_PATH at your own build's libdpdk.pc.\n{reason}"
        ));
    }
}

/// Asks pkg-config itself: its Rust crate keeps include paths and macros only, and drops
/// `-include rte_config.h` and `-march=`, without which the inline functions do not compile.
fn pkg_config_words(args: &[&str]) -> Vec<String> {
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    match Command::new(&program).args(args).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        Ok(output) => give_up(&format!(
            "`{program} {}` failed: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(reason) => give_up(&format!(
            "cannot run `{program}`: {reason}; install `pkg-config`"
        )),
    }
}

fn compile_shim(cflags: &[String]) {
    let mut build = cc::Build::new();
    build
        .file("shim/shim.c")
        .file("shim/bench.c")
        // The shim is on the packet path in every profile.
        .opt_level(3)
        .std("gnu11")
        .warnings(true);
    for flag in cflags {
        // DPDK's headers are not ours to fix: as system headers they stay silent.
        match flag.strip_prefix("-I") {
            Some(path) => build.flag("-isystem").flag(path),
            None => build.flag(flag),
        };
    }
    if let Err(reason) = build.try_compile("dpdk_shim") {
        give_up(&format!(
            "the C shim did not compile against this DPDK: {reason}\n\
             A C compiler is needed (Debian: `gcc` and `libc6-dev`)."
        ));
    }
}

fn link() {
    for directory in pkg_config_words(&["--variable=libdir", "libdpdk"]) {
        println!("cargo:rustc-link-search=native={directory}");
    }
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

fn generate_bindings(cflags: &[String]) {
    // bindgen loads libclang when first asked and panics if there is none.
    if std::panic::catch_unwind(bindgen::clang_version).is_err() {
        give_up(
            "libclang was not found: install `libclang-dev` (Debian, Ubuntu), or set \
             LIBCLANG_PATH to the folder of your libclang.so",
        );
    }
    let mut builder = bindgen::Builder::default()
        .header("shim/wrapper.h")
        .clang_args(cflags)
        .generate_comments(false)
        .layout_tests(false)
        .allowlist_recursively(false)
        .allowlist_type("shim_.*|telemetry_cb|lcore_function_t")
        .rust_edition(bindgen::RustEdition::Edition2024);
    for function in FUNCTIONS {
        builder = builder.allowlist_function(function);
    }
    for constant in CONSTANTS {
        builder = builder.allowlist_var(constant);
    }
    for name in OPAQUE {
        builder = builder.blocklist_type(name).raw_line(format!(
            "#[repr(C)] pub struct {name} {{ _opaque: [u8; 0] }}"
        ));
    }
    let out: PathBuf = std::env::var_os("OUT_DIR").unwrap_or_default().into();
    let written = builder
        .generate()
        .map_err(|reason| reason.to_string())
        .and_then(|bindings| {
            bindings
                .write_to_file(out.join("bindings.rs"))
                .map_err(|reason| reason.to_string())
        });
    if let Err(reason) = written {
        give_up(&format!("bindgen could not read DPDK's headers: {reason}"));
    }
}

/*
 * What bindgen reads: the shim and those DPDK headers whose exported functions have plain
 * signatures. build.rs lists which names get through.
 */
#include <rte_config.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include "bench.h"
#include "shim.h"

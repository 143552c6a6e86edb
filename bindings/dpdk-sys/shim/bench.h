/*
 * What `spraycheck bench` measures against: a plain receive and transmit loop in C, and the
 * restamping of frames that both it and the switch under test start every burst with.
 */
#ifndef SPRAYCHECK_DPDK_BENCH_H
#define SPRAYCHECK_DPDK_BENCH_H

#include <stdint.h>

struct rte_mbuf;

#define SHIM_STAMP_MACS_BYTES 12
/* Untagged Ethernet, IPv4 without options, UDP, and a BTH up to its PSN. */
#define SHIM_STAMP_FRAME_BYTES 54

/* What a frame that comes back must have again. */
struct shim_stamp {
	uint8_t macs[SHIM_STAMP_MACS_BYTES];
	uint8_t checksum[2];
	uint8_t ttl;
	uint8_t flags_qp[4]; /* the BTH's word with the mark and the destination QP */
	uint32_t psn;	     /* of the next frame */
	uint32_t next;	     /* flow of the next frame, where there are several */
};

/* One of several flows that frames belong to in turn. The sum of its addresses' words is that of all
 * others, and so is the header's checksum. */
struct shim_flow {
	uint8_t addresses[8]; /* source, destination */
	uint8_t flags_qp[4];
	uint32_t psn;
};

struct shim_queue {
	uint16_t port;
	uint16_t queue;
};

/* With `flow_count` 0 all frames are of the one flow that `stamp` has. */
void shim_bench_stamp(struct rte_mbuf *const *mbufs, uint32_t count, struct shim_stamp *stamp,
	struct shim_flow *flows, uint32_t flow_count);

/* Receives, restamps and sends to one queue after the other, for so many rounds; returns how
 * many packets that were. */
uint64_t shim_bench_loop(struct shim_queue rx, const struct shim_queue *tx, uint32_t tx_count,
	uint16_t burst, uint64_t rounds, struct shim_stamp *stamp, struct shim_flow *flows,
	uint32_t flow_count);

#endif

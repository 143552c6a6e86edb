/*
 * See bench.h.
 */
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include "bench.h"

#define BURST_MAX 64
#define TTL_AT 22
#define CHECKSUM_AT 24
#define ADDRESSES_AT 26
#define FLAGS_AT 46
#define PSN_AT 50

static inline void restamp(struct rte_mbuf *const *mbufs, uint32_t count, struct shim_stamp *stamp)
{
	uint32_t psn = stamp->psn;

	for (uint32_t i = 0; i < count; i++) {
		uint8_t *data = rte_pktmbuf_mtod(mbufs[i], uint8_t *);
		uint32_t word;

		if (rte_pktmbuf_data_len(mbufs[i]) < SHIM_STAMP_FRAME_BYTES)
			continue;
		memcpy(data, stamp->macs, sizeof(stamp->macs));
		data[TTL_AT] = stamp->ttl;
		memcpy(data + CHECKSUM_AT, stamp->checksum, sizeof(stamp->checksum));
		/* Whole words, as a parser reads them: single bytes would stall its loads. */
		memcpy(data + FLAGS_AT, stamp->flags_qp, sizeof(stamp->flags_qp));
		word = rte_cpu_to_be_32(psn);
		memcpy(data + PSN_AT, &word, sizeof(word));
		psn = (psn + 1) & 0xffffff;
	}
	stamp->psn = psn;
}

/* The same, each frame being of the next flow. */
static inline void restamp_flows(struct rte_mbuf *const *mbufs, uint32_t count,
	struct shim_stamp *stamp, struct shim_flow *flows, uint32_t flow_count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct shim_flow *flow = &flows[stamp->next];
		uint8_t *data = rte_pktmbuf_mtod(mbufs[i], uint8_t *);

		memcpy(stamp->flags_qp, flow->flags_qp, sizeof(stamp->flags_qp));
		stamp->psn = flow->psn;
		restamp(mbufs + i, 1, stamp);
		if (rte_pktmbuf_data_len(mbufs[i]) < SHIM_STAMP_FRAME_BYTES)
			continue;
		memcpy(data + ADDRESSES_AT, flow->addresses, sizeof(flow->addresses));
		flow->psn = stamp->psn;
		stamp->next = stamp->next + 1 < flow_count ? stamp->next + 1 : 0;
	}
}

static inline void restamp_all(struct rte_mbuf *const *mbufs, uint32_t count,
	struct shim_stamp *stamp, struct shim_flow *flows, uint32_t flow_count)
{
	if (flow_count == 0)
		restamp(mbufs, count, stamp);
	else
		restamp_flows(mbufs, count, stamp, flows, flow_count);
}

void shim_bench_stamp(struct rte_mbuf *const *mbufs, uint32_t count, struct shim_stamp *stamp,
	struct shim_flow *flows, uint32_t flow_count)
{
	restamp_all(mbufs, count, stamp, flows, flow_count);
}

uint64_t shim_bench_loop(struct shim_queue rx, const struct shim_queue *tx, uint32_t tx_count,
	uint16_t burst, uint64_t rounds, struct shim_stamp *stamp, struct shim_flow *flows,
	uint32_t flow_count)
{
	struct rte_mbuf *mbufs[BURST_MAX];
	uint64_t packets = 0;
	uint32_t next = 0;

	if (burst > BURST_MAX)
		burst = BURST_MAX;
	for (uint64_t round = 0; round < rounds && tx_count > 0; round++) {
		uint16_t count = rte_eth_rx_burst(rx.port, rx.queue, mbufs, burst);
		uint16_t sent;

		for (uint16_t i = 0; i < count; i++)
			rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
		restamp_all(mbufs, count, stamp, flows, flow_count);
		sent = rte_eth_tx_burst(tx[next].port, tx[next].queue, mbufs, count);
		if (sent < count)
			rte_pktmbuf_free_bulk(mbufs + sent, count - sent);
		packets += sent;
		next = next + 1 < tx_count ? next + 1 : 0;
	}
	return packets;
}

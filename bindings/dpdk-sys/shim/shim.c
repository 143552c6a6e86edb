/*
 * See shim.h. Bodies stay as short as the DPDK call they wrap; policy lives in Rust.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>
#include <rte_ring.h>
#include <rte_string_fns.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include "shim.h"

_Static_assert(RTE_ETH_XSTATS_NAME_SIZE <= SHIM_NAME_BYTES, "xstat names would be cut");
_Static_assert(RTE_ETHER_ADDR_LEN == SHIM_MAC_BYTES, "a MAC address is six bytes");

#define SAME_PLACE(field) \
	_Static_assert(offsetof(struct shim_mbuf, field) == offsetof(struct rte_mbuf, field) && \
			sizeof(((struct shim_mbuf *)0)->field) == sizeof(((struct rte_mbuf *)0)->field), \
		"struct rte_mbuf has " #field " elsewhere")

SAME_PLACE(buf_addr);
SAME_PLACE(data_off);
SAME_PLACE(nb_segs);
SAME_PLACE(pkt_len);
SAME_PLACE(data_len);

/* ---- Process and lcores ---- */

int shim_errno(void)
{
	return rte_errno;
}

uint32_t shim_lcore_id(void)
{
	return rte_lcore_id();
}

int shim_lcore_is_waiting(uint32_t lcore)
{
	return rte_eal_get_lcore_state(lcore) == WAIT;
}

uint64_t shim_tsc(void)
{
	return rte_rdtsc();
}

/* ---- Memory pools and mbufs ---- */

uint32_t shim_pool_object_bytes(uint32_t data_room_bytes)
{
	return rte_mempool_calc_obj_size(sizeof(struct rte_mbuf) + data_room_bytes, 0, NULL);
}

struct visit {
	void (*visit)(void *context, uint8_t *data, size_t room);
	void *context;
};

static void visit_object(struct rte_mempool *pool, void *opaque, void *object, unsigned int index)
{
	struct visit *visit = opaque;
	struct rte_mbuf *mbuf = object;

	(void)pool;
	(void)index;
	visit->visit(visit->context, (uint8_t *)mbuf->buf_addr + RTE_PKTMBUF_HEADROOM,
		(size_t)mbuf->buf_len - RTE_PKTMBUF_HEADROOM);
}

void shim_pool_for_each(struct rte_mempool *pool,
	void (*visit)(void *context, uint8_t *data, size_t room), void *context)
{
	struct visit state = { .visit = visit, .context = context };

	rte_mempool_obj_iter(pool, visit_object, &state);
}

struct rte_mbuf *shim_mbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int shim_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}

void shim_mbuf_free(struct rte_mbuf *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

uint32_t shim_mbuf_headroom(const struct rte_mbuf *mbuf)
{
	return rte_pktmbuf_headroom(mbuf);
}

/* Bytes the first segment can hold from its data start on. */
uint32_t shim_mbuf_room(const struct rte_mbuf *mbuf)
{
	return (uint32_t)mbuf->buf_len - mbuf->data_off;
}

int shim_mbuf_set_len(struct rte_mbuf *mbuf, uint32_t len)
{
	if (mbuf->nb_segs != 1)
		return -ENOTSUP;
	if (len > shim_mbuf_room(mbuf))
		return -ENOSPC;
	mbuf->data_len = (uint16_t)len;
	mbuf->pkt_len = len;
	return 0;
}

int shim_mbuf_prepend(struct rte_mbuf *mbuf, uint32_t len)
{
	/* A 16-bit length would wrap silently in rte_pktmbuf_prepend. */
	if (len > rte_pktmbuf_headroom(mbuf) || len + mbuf->data_len > UINT16_MAX)
		return -ENOSPC;
	rte_pktmbuf_prepend(mbuf, (uint16_t)len);
	return 0;
}

int shim_mbuf_trim_front(struct rte_mbuf *mbuf, uint32_t len)
{
	if (len > mbuf->data_len)
		return -ENOSPC;
	rte_pktmbuf_adj(mbuf, (uint16_t)len);
	return 0;
}

void shim_mbuf_reset(struct rte_mbuf *mbuf)
{
	/* rte_pktmbuf_reset forgets further segments: give them back first. */
	if (mbuf->next != NULL)
		rte_pktmbuf_free(mbuf->next);
	rte_pktmbuf_reset(mbuf);
}

/* ---- Rings ---- */

struct rte_ring *shim_ring_create(const char *name, uint32_t capacity, int socket)
{
	return rte_ring_create(name, capacity, socket,
		RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

uint32_t shim_ring_enqueue(struct rte_ring *ring, struct rte_mbuf *const *mbufs, uint32_t count)
{
	return rte_ring_sp_enqueue_burst(ring, (void *const *)mbufs, count, NULL);
}

uint32_t shim_ring_dequeue(struct rte_ring *ring, struct rte_mbuf **mbufs, uint32_t count)
{
	return rte_ring_sc_dequeue_burst(ring, (void **)mbufs, count, NULL);
}

uint32_t shim_ring_len(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

uint32_t shim_ring_capacity(const struct rte_ring *ring)
{
	return rte_ring_get_capacity(ring);
}

/* ---- Ports ---- */

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	uint16_t received = rte_eth_rx_burst(port, queue, mbufs, count);

	/* Their headers are read next. */
	for (uint16_t i = 0; i < received; i++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
	return received;
}

uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	return rte_eth_tx_burst(port, queue, mbufs, count);
}

int shim_port_info(uint16_t port, struct shim_port_info *info)
{
	struct rte_eth_dev_info raw;
	int result = rte_eth_dev_info_get(port, &raw);

	if (result != 0)
		return result;
	memset(info, 0, sizeof(*info));
	if (raw.driver_name != NULL)
		rte_strscpy(info->driver, raw.driver_name, sizeof(info->driver));
	if (raw.device != NULL)
		rte_strscpy(info->device, rte_dev_name(raw.device), sizeof(info->device));
	info->max_rx_queues = raw.max_rx_queues;
	info->max_tx_queues = raw.max_tx_queues;
	info->rx_descriptors_min = raw.rx_desc_lim.nb_min;
	info->rx_descriptors_max = raw.rx_desc_lim.nb_max;
	info->rx_descriptors_align = raw.rx_desc_lim.nb_align;
	info->tx_descriptors_min = raw.tx_desc_lim.nb_min;
	info->tx_descriptors_max = raw.tx_desc_lim.nb_max;
	info->tx_descriptors_align = raw.tx_desc_lim.nb_align;
	info->min_mtu = raw.min_mtu;
	info->max_mtu = raw.max_mtu;
	info->max_rx_frame = raw.max_rx_pktlen;
	return 0;
}

/* An all-zero rte_eth_conf means: no offload, no RSS, no interrupt. mtu 0: the driver's own. */
int shim_port_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, uint32_t mtu)
{
	struct rte_eth_conf conf;

	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = mtu;
	return rte_eth_dev_configure(port, rx_queues, tx_queues, &conf);
}

int shim_port_rx_queue(uint16_t port, uint16_t queue, uint16_t descriptors, int socket,
	struct rte_mempool *pool)
{
	struct rte_eth_dev_info info;
	int result = rte_eth_dev_info_get(port, &info);

	if (result != 0)
		return result;
	info.default_rxconf.offloads = 0;
	return rte_eth_rx_queue_setup(port, queue, descriptors, (unsigned int)socket,
		&info.default_rxconf, pool);
}

int shim_port_tx_queue(uint16_t port, uint16_t queue, uint16_t descriptors, int socket)
{
	struct rte_eth_dev_info info;
	int result = rte_eth_dev_info_get(port, &info);

	if (result != 0)
		return result;
	info.default_txconf.offloads = 0;
	return rte_eth_tx_queue_setup(port, queue, descriptors, (unsigned int)socket,
		&info.default_txconf);
}

int shim_port_stats(uint16_t port, struct shim_port_stats *stats)
{
	struct rte_eth_stats raw;
	int result = rte_eth_stats_get(port, &raw);

	if (result != 0)
		return result;
	stats->rx_packets = raw.ipackets;
	stats->tx_packets = raw.opackets;
	stats->rx_bytes = raw.ibytes;
	stats->tx_bytes = raw.obytes;
	stats->rx_missed = raw.imissed;
	stats->rx_errors = raw.ierrors;
	stats->rx_no_mbuf = raw.rx_nombuf;
	stats->tx_errors = raw.oerrors;
	return 0;
}

/* Returns how many there are; fills `out` only if they all fit. */
int shim_port_xstats(uint16_t port, struct shim_xstat *out, uint32_t capacity)
{
	int total = rte_eth_xstats_get_names(port, NULL, 0);
	struct rte_eth_xstat_name *names;
	struct rte_eth_xstat *values;
	int result = -ENOMEM;

	if (total <= 0 || (uint32_t)total > capacity)
		return total;
	names = calloc((size_t)total, sizeof(*names));
	values = calloc((size_t)total, sizeof(*values));
	if (names != NULL && values != NULL) {
		result = rte_eth_xstats_get_names(port, names, (unsigned int)total);
		if (result >= 0)
			result = rte_eth_xstats_get(port, values, (unsigned int)total);
		/* A count above `total` means that the set grew meanwhile and nothing was filled. */
		for (int i = 0; result <= total && i < result; i++) {
			rte_strscpy(out[i].name, names[values[i].id].name, sizeof(out[i].name));
			out[i].value = values[i].value;
		}
	}
	free(names);
	free(values);
	return result;
}

int shim_port_link(uint16_t port, struct shim_link *link)
{
	struct rte_eth_link raw;
	int result = rte_eth_link_get_nowait(port, &raw);

	if (result != 0)
		return result;
	link->speed_mbps = raw.link_speed;
	link->up = raw.link_status == RTE_ETH_LINK_UP;
	link->full_duplex = raw.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	return 0;
}

int shim_port_mac(uint16_t port, uint8_t mac[SHIM_MAC_BYTES])
{
	struct rte_ether_addr address;
	int result = rte_eth_macaddr_get(port, &address);

	if (result == 0)
		memcpy(mac, address.addr_bytes, SHIM_MAC_BYTES);
	return result;
}

/* ---- Telemetry ---- */

int shim_tel_add_number(struct rte_tel_data *data, const char *name, uint64_t value)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_dict_uint(data, name, value);
#else
	return rte_tel_data_add_dict_u64(data, name, value);
#endif
}

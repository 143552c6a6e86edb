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
#include <rte_pause.h>
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

uint32_t shim_lcore_socket(uint32_t lcore)
{
	return rte_lcore_to_socket_id(lcore);
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

/* The RSS hash, which nobody here reads: a driver writes it at reception, before we do. */
void shim_mbuf_set_note(struct rte_mbuf *mbuf, uint32_t note)
{
	mbuf->hash.usr = note;
}

uint32_t shim_mbuf_note(const struct rte_mbuf *mbuf)
{
	return mbuf->hash.usr;
}

#define TAG_BYTES 4
#define MACS_BYTES 12
#define TPID_BYTES 2

/* The VLAN id of the outermost tag (802.1Q, 9.3: TPID 0x8100), or -ENOENT. */
int shim_mbuf_tag(const struct rte_mbuf *mbuf)
{
	const uint8_t *data = rte_pktmbuf_mtod(mbuf, const uint8_t *);

	if (mbuf->data_len < MACS_BYTES + TAG_BYTES || data[MACS_BYTES] != 0x81 ||
			data[MACS_BYTES + 1] != 0x00)
		return -ENOENT;
	return (data[MACS_BYTES + TPID_BYTES] & 0x0f) << 8 | data[MACS_BYTES + TPID_BYTES + 1];
}

/* Takes the outermost tag off if it is that of `vlan`. */
int shim_mbuf_strip_tag(struct rte_mbuf *mbuf, uint16_t vlan)
{
	uint8_t *data = rte_pktmbuf_mtod(mbuf, uint8_t *);

	if (shim_mbuf_tag(mbuf) != vlan)
		return -ENOENT;
	memmove(data + TAG_BYTES, data, MACS_BYTES);
	rte_pktmbuf_adj(mbuf, TAG_BYTES);
	return 0;
}

/* Puts a tag of `vlan` and priority 0 behind the MAC addresses. */
int shim_mbuf_push_tag(struct rte_mbuf *mbuf, uint16_t vlan)
{
	uint8_t *data;

	if (mbuf->data_len < MACS_BYTES || shim_mbuf_prepend(mbuf, TAG_BYTES) != 0)
		return -ENOSPC;
	data = rte_pktmbuf_mtod(mbuf, uint8_t *);
	memmove(data, data + TAG_BYTES, MACS_BYTES);
	data[MACS_BYTES] = 0x81;
	data[MACS_BYTES + 1] = 0x00;
	data[MACS_BYTES + TPID_BYTES] = (uint8_t)(vlan >> 8 & 0x0f);
	data[MACS_BYTES + TPID_BYTES + 1] = (uint8_t)vlan;
	return 0;
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

#define SPREAD_TYPES (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6)
/* Of a Toeplitz key IPv6 uses 36 bytes; drivers want 40 or 52. */
#define SPREAD_KEY_BYTES_MAX 64

/* Whether received packets can be spread over queues by a hash of their IP addresses. */
int shim_port_can_spread(uint16_t port)
{
	struct rte_eth_dev_info info;
	int result = rte_eth_dev_info_get(port, &info);

	if (result != 0)
		return result;
	return (info.flow_type_rss_offloads & SPREAD_TYPES) == SPREAD_TYPES &&
		info.hash_key_size >= 40 && info.hash_key_size <= SPREAD_KEY_BYTES_MAX &&
		info.reta_size != 0 && (info.reta_size & (info.reta_size - 1)) == 0;
}

/*
 * An all-zero rte_eth_conf means: no offload, no RSS, no interrupt. mtu 0: the driver's own.
 * `spreads`: by IP addresses alone and with one key, so that a pair of addresses meets on the
 * same queue of every device. Interrupts for link changes are asked for where there are any.
 */
int shim_port_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, uint32_t mtu,
	int spreads)
{
	static uint8_t key[SPREAD_KEY_BYTES_MAX];
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int result = rte_eth_dev_info_get(port, &info);

	if (result != 0)
		return result;
	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = mtu;
	conf.intr_conf.lsc = (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
	if (spreads) {
		/* This key of two repeated bytes gives both directions of a pair one hash. */
		for (size_t i = 0; i < sizeof(key); i++)
			key[i] = i % 2 == 0 ? 0x6d : 0x5a;
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_key = key;
		conf.rx_adv_conf.rss_conf.rss_key_len = info.hash_key_size;
		conf.rx_adv_conf.rss_conf.rss_hf = SPREAD_TYPES;
	}
	return rte_eth_dev_configure(port, rx_queues, tx_queues, &conf);
}

/* What a link change calls, on the thread of EAL's interrupts. */
struct link_watch {
	void (*changed)(void *context);
	void *context;
};

static int link_event(uint16_t port, enum rte_eth_event_type type, void *context, void *result)
{
	const struct link_watch *watch = context;

	(void)port;
	(void)type;
	(void)result;
	watch->changed(watch->context);
	return 0;
}

static struct link_watch link_watches[RTE_MAX_ETHPORTS];

int shim_port_on_link(uint16_t port, void (*changed)(void *context), void *context)
{
	if (port >= RTE_MAX_ETHPORTS)
		return -ENODEV;
	link_watches[port] = (struct link_watch){ changed, context };
	return rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_LSC, link_event,
		&link_watches[port]);
}

void shim_port_off_link(uint16_t port)
{
	/* Waits for a call that is running (-EAGAIN while it is). */
	while (rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_LSC, link_event,
			&link_watches[port]) == -EAGAIN)
		rte_pause();
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

int shim_tel_start_strings(struct rte_tel_data *data)
{
	return rte_tel_data_start_array(data, RTE_TEL_STRING_VAL);
}

int shim_tel_add_number(struct rte_tel_data *data, const char *name, uint64_t value)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	return rte_tel_data_add_dict_uint(data, name, value);
#else
	return rte_tel_data_add_dict_u64(data, name, value);
#endif
}

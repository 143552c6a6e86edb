/*
 * The C side of the bindings: DPDK's inline functions and everything that reads or writes a
 * DPDK structure, behind signatures of plain numbers and pointers.
 *
 * Called by the `dpdk` crate only. Compiled with the flags of the same libdpdk that is linked,
 * so a newer DPDK with other structure layouts needs a rebuild and no change in Rust.
 *
 * Functions returning int follow DPDK: 0 or a count on success, a negative errno on failure.
 */
#ifndef SPRAYCHECK_DPDK_SHIM_H
#define SPRAYCHECK_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;
struct rte_ring;
struct rte_tel_data;

#define SHIM_NAME_BYTES 64
#define SHIM_MAC_BYTES 6

/*
 * The fields of struct rte_mbuf that the packet path reads, where they are: a call for each would
 * cost as much as the work on the packet. shim.c asserts the places.
 */
struct shim_mbuf {
	uint8_t *buf_addr;
	uint64_t iova;
	uint16_t data_off;
	uint16_t refcnt;
	uint16_t nb_segs;
	uint16_t port;
	uint64_t ol_flags;
	uint32_t packet_type;
	uint32_t pkt_len;
	uint16_t data_len;
};

struct shim_port_info {
	char driver[SHIM_NAME_BYTES];
	char device[SHIM_NAME_BYTES];
	uint32_t max_rx_queues;
	uint32_t max_tx_queues;
	uint32_t rx_descriptors_min;
	uint32_t rx_descriptors_max;
	uint32_t rx_descriptors_align;
	uint32_t tx_descriptors_min;
	uint32_t tx_descriptors_max;
	uint32_t tx_descriptors_align;
	uint32_t min_mtu;
	uint32_t max_mtu;
	uint32_t max_rx_frame;
};

struct shim_port_stats {
	uint64_t rx_packets;
	uint64_t tx_packets;
	uint64_t rx_bytes;
	uint64_t tx_bytes;
	uint64_t rx_missed;
	uint64_t rx_errors;
	uint64_t rx_no_mbuf;
	uint64_t tx_errors;
};

struct shim_xstat {
	char name[SHIM_NAME_BYTES];
	uint64_t value;
};

struct shim_link {
	uint32_t speed_mbps; /* UINT32_MAX: unknown */
	uint32_t up;
	uint32_t full_duplex;
};

/* Process and lcores */
int shim_errno(void);
uint32_t shim_lcore_socket(uint32_t lcore);
uint32_t shim_lcore_id(void); /* UINT32_MAX on a thread that is no lcore */
int shim_lcore_is_waiting(uint32_t lcore);
uint64_t shim_tsc(void);

/* Memory pools and mbufs */
uint32_t shim_pool_object_bytes(uint32_t data_room_bytes);
void shim_pool_for_each(struct rte_mempool *pool,
	void (*visit)(void *context, uint8_t *data, size_t room), void *context);
struct rte_mbuf *shim_mbuf_alloc(struct rte_mempool *pool);
int shim_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count);
void shim_mbuf_free(struct rte_mbuf *mbuf);
uint32_t shim_mbuf_headroom(const struct rte_mbuf *mbuf);
uint32_t shim_mbuf_room(const struct rte_mbuf *mbuf);
int shim_mbuf_set_len(struct rte_mbuf *mbuf, uint32_t len);
int shim_mbuf_prepend(struct rte_mbuf *mbuf, uint32_t len);
int shim_mbuf_trim_front(struct rte_mbuf *mbuf, uint32_t len);
void shim_mbuf_reset(struct rte_mbuf *mbuf);
void shim_mbuf_set_note(struct rte_mbuf *mbuf, uint32_t note);
uint32_t shim_mbuf_note(const struct rte_mbuf *mbuf);
int shim_mbuf_strip_tag(struct rte_mbuf *mbuf, uint16_t vlan);
int shim_mbuf_push_tag(struct rte_mbuf *mbuf, uint16_t vlan);
int shim_mbuf_tag(const struct rte_mbuf *mbuf);

/* Rings: one producer, one consumer */
struct rte_ring *shim_ring_create(const char *name, uint32_t capacity, int socket);
uint32_t shim_ring_enqueue(struct rte_ring *ring, struct rte_mbuf *const *mbufs, uint32_t count);
uint32_t shim_ring_dequeue(struct rte_ring *ring, struct rte_mbuf **mbufs, uint32_t count);
uint32_t shim_ring_len(const struct rte_ring *ring);
uint32_t shim_ring_capacity(const struct rte_ring *ring);

/* Ports */
uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
int shim_port_info(uint16_t port, struct shim_port_info *info);
int shim_port_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, uint32_t mtu,
	int spreads);
int shim_port_can_spread(uint16_t port);
int shim_port_on_link(uint16_t port, void (*changed)(void *context), void *context);
void shim_port_off_link(uint16_t port);
int shim_port_rx_queue(uint16_t port, uint16_t queue, uint16_t descriptors, int socket,
	struct rte_mempool *pool);
int shim_port_tx_queue(uint16_t port, uint16_t queue, uint16_t descriptors, int socket);
int shim_port_stats(uint16_t port, struct shim_port_stats *stats);
int shim_port_xstats(uint16_t port, struct shim_xstat *out, uint32_t capacity);
int shim_port_link(uint16_t port, struct shim_link *link);
int shim_port_mac(uint16_t port, uint8_t mac[SHIM_MAC_BYTES]);

/* Telemetry */
int shim_tel_start_strings(struct rte_tel_data *data);
int shim_tel_add_number(struct rte_tel_data *data, const char *name, uint64_t value);

#endif

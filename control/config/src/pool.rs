//! How many packet buffers a process of switches needs: every place where one can be at once.
//!
//! A pool that is too small fails late and in a strange way: receiving stops while queues hold
//! what is missing. So start-up compares this sum with what was configured, and with the memory.

use std::fmt;

use crate::switch_file::SwitchSpec;

/// Smallest frame that a queue can hold, in bytes: what Ethernet pads to, without FCS.
const FRAME_MIN_BYTES: u64 = 60;
/// An mbuf's own header, its private area and its place in the pool, in bytes.
const OBJECT_BYTES: u64 = 128 + 64;
/// A pool's cache holds half as much again before it gives back (RTE_MEMPOOL_CACHE_MAX_SIZE's
/// flush threshold is 1.5).
const CACHE_FLUSH_HALVES: u64 = 3;

/// The parts of a process that buffers can be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// Receive and transmit descriptors of all queues of all devices.
    pub descriptors: u64,
    /// Packets that the queues of all switches can hold, on all lcores.
    pub queued: u64,
    /// Packets in bursts: one that was received and one that waits for each device's ring.
    pub bursts: u64,
    /// Packets in rings between lcores.
    pub rings: u64,
    /// Buffers that the caches of lcores keep.
    pub caches: u64,
}

impl Places {
    /// Buffers that can be out at once.
    pub fn buffers(&self) -> u64 {
        self.descriptors + self.queued + self.bursts + self.rings + self.caches
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in descriptors, {} in queues, {} in bursts, {} in rings, {} in caches of lcores",
            self.descriptors, self.queued, self.bursts, self.rings, self.caches
        )
    }
}

/// Packets that the queues of a switch can hold: by its bound in packets, or by the bytes of all
/// its queues in the smallest frames, whichever is less, and the messages that have a reserve.
pub fn queued(spec: &SwitchSpec) -> u64 {
    let queue = &spec.config.queue;
    let by_bytes = 8 * spec.config.ports.len() as u64 * (queue.limit_bytes / FRAME_MIN_BYTES);
    let messages = pipeline::port::Reserve::of(&spec.config).packets;
    u64::from(queue.packets_max).min(by_bytes) + u64::from(messages)
}

/// Buffers that a cache of `cache` can keep from everybody else.
pub fn cached(cache: u64) -> u64 {
    cache * CACHE_FLUSH_HALVES / 2
}

/// Bytes of memory for `buffers` of `room` bytes each, headroom not counted.
pub fn bytes(buffers: u64, room: u64, headroom: u64) -> u64 {
    buffers * (room + headroom + OBJECT_BYTES).next_multiple_of(64)
}

/// What is wrong with a pool, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TooSmall {
    /// Fewer buffers are configured than can be out.
    Buffers {
        /// Configured.
        has: u64,
        /// Where they can be.
        places: Places,
    },
    /// They do not fit the memory that DPDK is given.
    Memory {
        /// Bytes needed.
        needs: u64,
        /// Bytes given.
        has: u64,
        /// How many of them, of how many bytes.
        buffers: (u64, u64),
        /// Where they can be.
        places: Places,
    },
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        match self {
            TooSmall::Buffers { has, places } => write!(
                f,
                "eal.buffers: {has} are fewer than the {} that can be out at once ({places}); \
                 raise it to that, leave it out, or lower queue.packets",
                places.buffers()
            ),
            TooSmall::Memory {
                needs,
                has,
                buffers: (count, room),
                places,
            } => write!(
                f,
                "eal.size: {} MiB do not hold {count} buffers of {room} bytes, {} MiB with what \
                 DPDK itself needs ({places}); raise eal.size to \"{}MiB\", lower queue.packets, \
                 or lower mtu",
                mib(*has),
                mib(*needs),
                mib(*needs)
            ),
        }
    }
}

/// How many buffers to make, of `room` bytes each, in `memory` bytes of which DPDK itself takes
/// `own`.
///
/// # Errors
/// What is too small, with the numbers and the cure.
pub fn size(
    places: Places,
    configured: Option<u32>,
    (room, headroom): (u64, u64),
    (memory, own): (u64, u64),
) -> Result<u64, TooSmall> {
    let need = places.buffers();
    let count = configured.map_or(need, u64::from);
    if count < need {
        return Err(TooSmall::Buffers { has: count, places });
    }
    let needs = bytes(count, room, headroom) + own;
    if needs > memory {
        return Err(TooSmall::Memory {
            needs,
            has: memory,
            buffers: (count, room),
            places,
        });
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const LEAF: &str = include_str!("../../../docs/examples/leaf0.toml");

    fn places() -> Places {
        Places {
            descriptors: 5 * 512,
            queued: 32_768,
            bursts: 640,
            rings: 2048,
            caches: 768,
        }
    }

    /// Goal: queues count by the tighter of their two bounds.
    #[test]
    fn queues_hold_what_their_bounds_allow() {
        let spec = SwitchSpec::parse(Path::new("x"), LEAF).unwrap();
        let messages = u64::from(pipeline::port::Reserve::of(&spec.config).packets);
        assert!(messages > 0);
        let more = "forty queues of 1 MiB hold more";
        assert_eq!(queued(&spec), 32_768 + messages, "{more}");
        let small = LEAF.replace("limit = \"1MiB\"", "limit = \"16KiB\"");
        let spec = SwitchSpec::parse(Path::new("x"), &small).unwrap();
        assert_eq!(queued(&spec), 40 * (16_384 / 60) + messages);
    }

    /// Goal: the sum is the size, and both ways of being too small say numbers and cure.
    #[test]
    fn a_pool_that_is_too_small_is_refused_with_numbers() {
        let need = 2560 + 32_768 + 640 + 2048 + 768;
        let room = (4352, 128);
        let memory = (256 << 20, 16 << 20);
        assert_eq!(size(places(), None, room, memory), Ok(need));
        assert_eq!(size(places(), Some(40_000), room, memory), Ok(40_000));
        let text = size(places(), Some(4096), room, memory)
            .unwrap_err()
            .to_string();
        assert!(
            text.starts_with("eal.buffers: 4096 are fewer than the 38784 that can be out at once (2560 in descriptors, 32768 in queues"),
            "{text}"
        );
        let text = size(places(), None, room, (64 << 20, 16 << 20))
            .unwrap_err()
            .to_string();
        // 38,784 buffers of 4,672 bytes are 172.8 MiB.
        assert!(
            text.starts_with("eal.size: 64 MiB do not hold 38784 buffers of 4352 bytes, 189 MiB"),
            "{text}"
        );
        assert!(text.contains("raise eal.size to \"189MiB\""), "{text}");
    }
}

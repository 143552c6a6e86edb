//! Where queued packets wait: slots in chunks, of which every queue has a chain.
//!
//! A queue has a slot for its next packet, so one that comes is stored there and nothing else is
//! looked at; a chunk that is full asks for another. An empty queue goes back to the begin of its
//! chunk, which is still in the cache. All memory is reserved at start, and touched when it is
//! used.

/// Slots of a chunk: more than a port is given before it is served, so that asking for another is rare
/// and the branch is foreseen.
const CHUNK: u32 = 32;
/// Chunks that a queue may fill in part: its first and its last.
const CHUNKS_IN_PART: usize = 2;
const NONE: u32 = u32::MAX;

/// Packets' places. Lengths lie side by side, so that those of a queue's front are summed up at once.
#[repr(align(64))]
struct Chunk<T> {
    /// Bytes of the packets.
    lens: [u32; CHUNK as usize],
    tokens: [Option<T>; CHUNK as usize],
}

impl<T> Chunk<T> {
    const EMPTY: Chunk<T> = Chunk {
        lens: [0; CHUNK as usize],
        tokens: [const { None }; CHUNK as usize],
    };
}

/// The first packets of a queue, side by side, with their lengths in bytes.
pub(super) struct Front<'a, T> {
    pub(super) lens: &'a [u32],
    tokens: &'a mut [Option<T>],
}

impl<T> Front<'_, T> {
    /// Takes the first `count`, which leave.
    #[inline(always)]
    pub(super) fn take(self, count: usize) -> impl Iterator<Item = T> {
        let (tokens, _) = self.tokens.split_at_mut(count.min(self.tokens.len()));
        tokens.iter_mut().map_while(Option::take)
    }
}

/// One queue: the slot of its first packet, and that of the next to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    /// One that is empty, and has no slot yet.
    pub(super) const EMPTY: Fifo = Fifo {
        head: NONE,
        tail: NONE,
    };
}

/// The slots of a switch.
#[repr(C)]
pub(super) struct Slots<T> {
    /// How many more packets may come; below 0, how many slots messages have of their reserve.
    room: i32,
    /// The first slot of the first chunk that was given back; those behind `chunks` were never used.
    free: u32,
    chunks: Vec<Chunk<T>>,
    /// By chunk: the first slot of the next one of the same queue, or of the next that was given back.
    next: Vec<u32>,
    /// Slots of the messages' reserve.
    reserve: i32,
}

impl<T> Slots<T> {
    /// Room for `packets`, and for `reserve` messages more, in `queues`, whichever way they are spread
    /// over them.
    pub(super) fn new(packets: u32, reserve: u32, queues: usize) -> Slots<T> {
        let most = i32::MAX as u32 / 2;
        let (packets, reserve) = (packets.min(most), reserve.min(most));
        let chunks = (packets + reserve).div_ceil(CHUNK) as usize + CHUNKS_IN_PART * queues;
        Slots {
            chunks: Vec::with_capacity(chunks),
            next: Vec::with_capacity(chunks),
            free: NONE,
            room: packets as i32,
            reserve: reserve as i32,
        }
    }

    /// How many more packets may come.
    #[inline(always)]
    pub(super) fn room(&self) -> u32 {
        self.room.max(0) as u32
    }

    /// Appends a packet of `len` bytes, or gives it back when there is no room.
    #[inline(always)]
    pub(super) fn push(&mut self, fifo: &mut Fifo, token: T, len: u32) -> Result<(), T> {
        if self.room <= 0 {
            return Err(token);
        }
        self.put(fifo, token, len)?;
        self.room -= 1;
        Ok(())
    }

    /// The same with a message, which may go into the reserve.
    pub(super) fn push_message(&mut self, fifo: &mut Fifo, token: T, len: u32) -> Result<(), T> {
        if self.room <= -self.reserve {
            return Err(token);
        }
        self.put(fifo, token, len)?;
        self.room -= 1;
        Ok(())
    }

    /// The same where there is room, which [`Slots::count`] is told of later.
    #[inline(always)]
    pub(super) fn put(&mut self, fifo: &mut Fifo, token: T, len: u32) -> Result<(), T> {
        let Some(chunk) = self.chunks.get_mut((fifo.tail / CHUNK) as usize) else {
            return self.put_first(fifo, token, len);
        };
        let slot = (fifo.tail % CHUNK) as usize;
        // It holds nothing: nothing is forgotten, and the compiler need not look.
        std::mem::forget(chunk.tokens[slot].replace(token));
        chunk.lens[slot] = len;
        let tail = fifo.tail + 1;
        fifo.tail = if tail.is_multiple_of(CHUNK) {
            self.extend(tail)
        } else {
            tail
        };
        Ok(())
    }

    /// The first packet of a queue that has no chunk yet.
    #[cold]
    fn put_first(&mut self, fifo: &mut Fifo, token: T, len: u32) -> Result<(), T> {
        let chunk = self.chunk();
        if chunk == NONE {
            return Err(token);
        }
        *fifo = Fifo {
            head: chunk,
            tail: chunk,
        };
        self.put(fifo, token, len)
    }

    /// So many packets were put in.
    #[inline(always)]
    pub(super) fn count(&mut self, packets: u32) {
        self.room -= packets as i32;
    }

    /// The last chunk of a queue is full at `tail`: it gets one more. Returns where that begins.
    #[inline(never)]
    fn extend(&mut self, tail: u32) -> u32 {
        let chunk = self.chunk();
        self.next[(tail / CHUNK - 1) as usize] = chunk;
        chunk
    }

    /// The first slot of a chunk that is free.
    fn chunk(&mut self) -> u32 {
        let chunk = self.free;
        if let Some(next) = self.next.get((chunk / CHUNK) as usize) {
            self.free = *next;
            return chunk;
        }
        let fresh = self.chunks.len();
        if fresh == self.chunks.capacity() {
            debug_assert!(false, "there are chunks for all packets");
            return NONE;
        }
        self.chunks.push(Chunk::EMPTY);
        self.next.push(NONE);
        fresh as u32 * CHUNK
    }

    /// The first packets of a queue, as many as lie side by side and `most` at most.
    #[inline(always)]
    pub(super) fn front(&mut self, fifo: Fifo, most: usize) -> Front<'_, T> {
        let is_last_chunk = (fifo.head ^ fifo.tail) < CHUNK;
        let end = if is_last_chunk {
            fifo.tail % CHUNK
        } else {
            CHUNK
        };
        let head = (fifo.head % CHUNK) as usize;
        let end = (end as usize).min(head + most);
        let Some(chunk) = self.chunks.get_mut((fifo.head / CHUNK) as usize) else {
            return Front {
                lens: &[],
                tokens: &mut [],
            };
        };
        Front {
            lens: chunk.lens.get(head..end).unwrap_or_default(),
            tokens: chunk.tokens.get_mut(head..end).unwrap_or_default(),
        }
    }

    /// `count` packets of the queue's front have left. Returns whether it is empty.
    #[inline(always)]
    pub(super) fn advance(&mut self, fifo: &mut Fifo, count: u32) -> bool {
        self.room += count as i32;
        fifo.head += count;
        if count > 0 && fifo.head.is_multiple_of(CHUNK) {
            let left = fifo.head - CHUNK;
            let next = &mut self.next[(left / CHUNK) as usize];
            fifo.head = std::mem::replace(next, self.free);
            self.free = left;
        }
        let is_empty = fifo.head == fifo.tail;
        if is_empty {
            // Of the chunk that both are in.
            let begin = fifo.tail / CHUNK * CHUNK;
            (fifo.head, fifo.tail) = (begin, begin);
        }
        is_empty
    }

    /// Takes the first packet of a queue, and tells its length and whether the queue is empty now.
    #[inline(always)]
    pub(super) fn pop(&mut self, fifo: &mut Fifo) -> Option<(T, u32, bool)> {
        let chunk = self.chunks.get_mut((fifo.head / CHUNK) as usize)?;
        let slot = (fifo.head % CHUNK) as usize;
        let token = chunk.tokens[slot].take()?;
        let len = chunk.lens[slot];
        Some((token, len, self.advance(fifo, 1)))
    }

    /// Lengths of all packets of a queue, first to last.
    pub(super) fn lengths(&self, fifo: Fifo) -> impl Iterator<Item = u32> {
        let mut at = fifo.head;
        std::iter::from_fn(move || {
            if at == fifo.tail {
                return None;
            }
            let chunk = self.chunks.get((at / CHUNK) as usize)?;
            let len = chunk.lens[(at % CHUNK) as usize];
            at += 1;
            if at.is_multiple_of(CHUNK) {
                at = self.next[(at / CHUNK - 1) as usize];
            }
            Some(len)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Queues of one store give what was put into each, in order, up to the room of all.
        #[test]
        #[cfg_attr(miri, ignore = "a case takes minutes")]
        fn queues_share_the_slots(
            packets in 1u32..300,
            moves in proptest::collection::vec((0usize..3, any::<bool>(), 1u32..50), 1..400),
        ) {
            let mut slots = Slots::new(packets, 0, 3);
            let mut fifos = [Fifo::EMPTY; 3];
            let mut model = vec![VecDeque::new(); 3];
            let mut token = 0u32;
            for (queue, is_push, count) in moves {
                let fifo = &mut fifos[queue];
                for _ in 0..count {
                    if is_push {
                        let is_full = model.iter().map(VecDeque::len).sum::<usize>() == packets as usize;
                        token += 1;
                        prop_assert_eq!(slots.push(fifo, token, token * 3).is_err(), is_full);
                        if !is_full {
                            model[queue].push_back(token);
                        }
                    } else {
                        let expected = model[queue].pop_front().map(|token| (token, token * 3, model[queue].is_empty()));
                        prop_assert_eq!(slots.pop(fifo), expected);
                    }
                }
                let lengths: Vec<u32> = slots.lengths(*fifo).collect();
                let expected: Vec<u32> = model[queue].iter().map(|token| token * 3).collect();
                prop_assert_eq!(lengths, expected);
                let held: usize = model.iter().map(VecDeque::len).sum();
                prop_assert_eq!(slots.room() as usize, packets as usize - held);
            }
        }

        /// What leaves in stretches is what leaves one by one.
        #[test]
        fn a_front_leaves_in_order(puts in 1u32..150, takes in proptest::collection::vec(1u32..40, 160)) {
            let mut slots = Slots::new(150, 0, 1);
            let mut fifo = Fifo::EMPTY;
            for token in 0..puts {
                slots.push(&mut fifo, token, 1).unwrap();
            }
            let mut due = 0;
            for most in takes {
                let front = slots.front(fifo, most as usize + 1);
                let count = most.min(front.lens.len() as u32);
                for token in front.take(most as usize) {
                    prop_assert_eq!(token, due);
                    due += 1;
                }
                prop_assert_eq!(slots.advance(&mut fifo, count), due == puts);
            }
            prop_assert_eq!(due, puts);
        }
    }
}

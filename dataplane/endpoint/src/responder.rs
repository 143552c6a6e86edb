//! The READ requests of a peer that are to be answered: a small bounded table.
//!
//! A request takes as many PSNs as its answer has packets, which carry just those PSNs. It is
//! answered once all before it has arrived (IBTA volume 1, 9.5), and again when it is repeated,
//! as a whole or from any packet on.

/// Requests that a connection may have under way: what adapters agree on as `max_rd_atomic`.
pub(crate) const READS_MAX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Job {
    /// Next packet of the answer, and one past the last.
    next: u64,
    end: u64,
    bytes_left: u64,
    begins: bool,
    is_repeat: bool,
}

/// A packet of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    pub(crate) index: u64,
    pub(crate) len: u32,
    pub(crate) begins: bool,
    pub(crate) ends: bool,
    pub(crate) is_repeat: bool,
}

#[derive(Debug)]
pub(crate) struct Responder {
    jobs: Vec<Job>,
}

impl Responder {
    pub(crate) fn new() -> Responder {
        Responder {
            jobs: Vec::with_capacity(READS_MAX),
        }
    }

    /// Whether there is room for another request.
    pub(crate) fn has_room(&self) -> bool {
        self.jobs.len() < READS_MAX
    }

    /// Takes a request for packets `index..index + count`. One that will be answered anyway
    /// changes nothing. The caller has looked for room.
    pub(crate) fn push(&mut self, index: u64, count: u64, bytes: u64, is_repeat: bool) {
        let end = index + count;
        if self.jobs.iter().any(|j| j.next <= index && end <= j.end) || !self.has_room() {
            return;
        }
        self.jobs.push(Job {
            next: index,
            end,
            bytes_left: bytes,
            begins: true,
            is_repeat,
        });
    }

    /// Whether nothing is to be answered, now or later.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether an answer is due, all before `expected` having arrived.
    #[inline]
    pub(crate) fn is_busy(&self, expected: u64) -> bool {
        self.jobs.iter().any(|job| job.next < expected)
    }

    /// Takes the next packet of an answer, the earliest first.
    pub(crate) fn take(&mut self, expected: u64, mtu_bytes: u32) -> Option<Response> {
        let due = self.jobs.iter_mut().enumerate();
        let due = due.filter(|(_, job)| job.next < expected);
        let (at, job) = due.min_by_key(|(_, job)| job.next)?;
        let len = job.bytes_left.min(u64::from(mtu_bytes)) as u32;
        let response = Response {
            index: job.next,
            len,
            begins: job.begins,
            ends: job.next + 1 == job.end,
            is_repeat: job.is_repeat,
        };
        job.next += 1;
        job.begins = false;
        job.bytes_left -= u64::from(len);
        if response.ends {
            self.jobs.swap_remove(at);
        }
        Some(response)
    }

    /// Answers nothing more.
    pub(crate) fn clear(&mut self) {
        self.jobs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: answers come in order, wait for their turn, and a request that is contained in one
    /// under way makes none.
    #[test]
    fn answers_come_in_order() {
        let mut responder = Responder::new();
        responder.push(10, 3, 2500, false);
        responder.push(5, 1, 7, false);
        responder.push(11, 2, 1500, true);
        assert!(!responder.is_busy(5));
        let mut said = Vec::new();
        for expected in [6, 13] {
            while let Some(r) = responder.take(expected, 1000) {
                said.push((expected, r.index, r.len, r.begins, r.ends));
            }
        }
        let wanted = [
            (6, 5, 7, true, true),
            (13, 10, 1000, true, false),
            (13, 11, 1000, false, false),
            (13, 12, 500, false, true),
        ];
        assert_eq!(said, wanted);
        for index in 0..100 {
            responder.push(2 * index, 1, 1, false);
        }
        assert_eq!(responder.jobs.len(), READS_MAX);
    }
}

//! The switch as a value: forward, spray, mark, queue, count, detect.

//! The weight of threads that share a core.

/// How much nicer: a thread that does not give way gets the core three times as often.
const NICE: i32 = 5;

/// From here on this thread gives way to those that answer people. What it does waits in queues that are bounded, and a
/// person does not.
pub(crate) fn give_way() {
    // On Linux a thread has a weight of its own. Where it may not be changed, answers are later.
    let _ = rustix::process::nice(NICE);
}

//! Whether a verdict is one of the fabric: everything in it comes from elsewhere.

use agent::verdict::WindowVerdict;
use detector::{Fabric, Path, SpineId};

/// Why a verdict is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A leaf or spine that the fabric does not have.
    #[error("a path is not one of this fabric")]
    OutsideFabric,
    /// No path, or one twice.
    #[error("its paths are not an ascending list of at least one")]
    Paths,
    /// A number that is none.
    #[error("a count, rate or variance is no number from 0 on")]
    Number,
}

/// Whether a verdict is one of a fabric.
///
/// # Errors
/// What it contradicts.
pub fn check(fabric: Fabric, verdict: &WindowVerdict) -> Result<(), Refusal> {
    let paths = &verdict.paths;
    if paths.is_empty() || !paths.is_sorted_by(|a, b| a.spine < b.spine) {
        return Err(Refusal::Paths);
    }
    // A history's numbers have a sign.
    let has_room = |number: u64| i64::try_from(number).is_ok();
    if ![verdict.seq, verdict.at_ns, verdict.took_ns]
        .into_iter()
        .all(has_room)
    {
        return Err(Refusal::Number);
    }
    // Counts beyond 2^52 are no packets, and would lose digits.
    let is_number = |number: f64| (0.0..4.5e15).contains(&number);
    for path in paths {
        let spine = SpineId(path.spine);
        let (src, dst) = (verdict.src, verdict.dst);
        if !fabric.contains(Path { src, spine, dst }) {
            return Err(Refusal::OutsideFabric);
        }
        let counts = [path.received, path.dropped];
        let mut counts = counts.iter().chain(path.hops.iter().flatten());
        let fits = is_number(path.expected)
            && is_number(path.noise)
            && path.visible.is_none_or(|rate| (0.0..=1.0).contains(&rate))
            && counts.all(|&count| is_number(count as f64));
        if !fits {
            return Err(Refusal::Number);
        }
    }
    Ok(())
}

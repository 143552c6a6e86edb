//! Adds up windows of a leaf pair until each spine has P_min packets.
//!
//! The agent of a destination leaf gives every window to
//! [`Aggregator::add`] and judges what comes back (paper section 3.5: counts of
//! several flows of a leaf pair are added when one is too short). Spines are
//! added up separately, since k may differ between windows. Counts of a window
//! that says nothing about a spine never enter that spine's sum. Memory: one
//! entry per (source, destination, spine) with packets waiting; entries without
//! a window for a minute are dropped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::{Evidence, KnownDrops, Reference, Rules};
use crate::types::{Epoch, LeafId, Nanos, Path, Qpn};
use crate::window::{VoidReason, Window, WindowError};

/// Counts of one path, summed over the windows that said something about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSums {
    /// The path.
    pub path: Path,
    /// Number of windows added; 0 if all were void.
    pub windows: u32,
    /// Number of windows that were void for this path.
    pub void_windows: u32,
    /// Why the latest of those was.
    pub void: Option<VoidReason>,
    /// Sum of the reference counts lambda, packets.
    pub lambda: f64,
    /// X: marked packets received.
    pub received: u64,
    /// S: marked packets sent; `None` if a window did not know.
    pub sent: Option<u64>,
    /// Marked packets dropped in our own queues.
    pub congestion_dropped: u64,
    /// Marked packets (received, sent on) at the spine; `None` if a window did
    /// not know.
    pub hop: Option<(u64, u64)>,
    /// First marked packet of the first window added.
    pub first_marked_ns: Nanos,
    /// Close of the latest window added.
    pub closed_ns: Nanos,
}

/// What is ready to be judged: paths of one leaf pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// Source leaf.
    pub src: LeafId,
    /// Destination leaf.
    pub dst: LeafId,
    /// QPN of the latest window.
    pub qpn: Qpn,
    /// Epoch of the latest window.
    pub epoch: Epoch,
    /// Paths with at least P_min packets, or void in this window; by spine.
    pub paths: Vec<PathSums>,
}

/// Adds up windows, see the file's comment.
#[derive(Clone, Debug)]
pub struct Aggregator {
    rules: Rules,
    pending: BTreeMap<(LeafId, LeafId), Vec<PathSums>>,
    expired: u64,
}

impl Aggregator {
    /// An empty aggregator.
    pub fn new(rules: Rules) -> Aggregator {
        Aggregator {
            rules,
            pending: BTreeMap::new(),
            expired: 0,
        }
    }

    /// Adds a window; returns the paths that now have P_min packets (and leave
    /// the aggregator) and those for which this window is void (reported so that
    /// no verdict is silent; their earlier windows stay).
    ///
    /// # Errors
    /// A window that contradicts itself or the fabric; nothing is added.
    pub fn add(&mut self, window: &Window) -> Result<Aggregate, WindowError> {
        window.check(self.rules.fabric)?;
        self.expire(window.closed_ns);
        let pair = (window.src, window.dst);
        let pending = self.pending.entry(pair).or_default();
        let mut paths = Vec::new();
        for mut new in window_sums(&self.rules, window) {
            let waiting = pending.iter().position(|old| old.path == new.path);
            if new.windows == 0 {
                if let Some(at) = waiting {
                    pending[at].void_windows += 1;
                    pending[at].void = new.void;
                }
                paths.push(new);
                continue;
            }
            if let Some(at) = waiting {
                new = merged(pending.swap_remove(at), new);
            }
            let packets = match self.rules.evidence {
                Evidence::ReceiveOnly => new.lambda,
                Evidence::SourceCounts | Evidence::HopCounts => new.sent.unwrap_or(0) as f64,
            };
            if packets >= self.rules.p_min as f64 {
                paths.push(new);
            } else {
                pending.push(new);
            }
        }
        if pending.is_empty() {
            self.pending.remove(&pair);
        }
        paths.sort_by_key(|sums| sums.path);
        let Window {
            src,
            dst,
            qpn,
            epoch,
            ..
        } = *window;
        Ok(Aggregate {
            src,
            dst,
            qpn,
            epoch,
            paths,
        })
    }

    /// Drops what got no window for the rules' expiry before `now`. Called by
    /// `add` with the window's own time; the agent calls it from its timer too.
    pub fn expire(&mut self, now: Nanos) {
        let oldest = now.0.saturating_sub(self.rules.expiry.0);
        let expired = &mut self.expired;
        self.pending.retain(|_, paths| {
            let before = paths.len();
            paths.retain(|sums| sums.closed_ns.0 >= oldest);
            *expired += (before - paths.len()) as u64;
            !paths.is_empty()
        });
    }

    /// Takes out all that waits, however little it is: nothing more will come. These sums belong to
    /// no single window, so QPN and epoch are 0.
    pub fn drain(&mut self) -> Vec<Aggregate> {
        let pending = std::mem::take(&mut self.pending);
        pending
            .into_iter()
            .map(|((src, dst), mut paths)| {
                paths.sort_by_key(|sums| sums.path);
                Aggregate {
                    src,
                    dst,
                    qpn: Qpn(0),
                    epoch: Epoch(0),
                    paths,
                }
            })
            .collect()
    }

    /// Paths whose counts were dropped because nothing came for too long.
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Paths with counts waiting for more packets.
    pub fn waiting(&self) -> usize {
        self.pending.values().map(Vec::len).sum()
    }
}

/// The sums of a single window, void paths with `windows` = 0.
fn window_sums(rules: &Rules, window: &Window) -> Vec<PathSums> {
    let whole = whole_window_void(rules, window);
    let lambda = reference(rules, window);
    let mut all = Vec::with_capacity(window.usable.len());
    for (i, &spine) in window.usable.iter().enumerate() {
        let sent = window.sent.as_ref().map(|sent| sent[i]);
        let received = window.counts[i];
        let congestion_dropped = window.congestion_dropped[i];
        let void = window.void_reason(spine).or(whole).or_else(|| {
            if sent.is_some_and(|sent| received + congestion_dropped > sent) {
                Some(VoidReason::MoreReceivedThanSent)
            } else if rules.known_drops == KnownDrops::Void && congestion_dropped > 0 {
                Some(VoidReason::KnownDrops)
            } else if rules.evidence != Evidence::ReceiveOnly && sent == Some(0) {
                Some(VoidReason::NothingSent)
            } else {
                None
            }
        });
        let hop = window.hops.as_ref().and_then(|hops| {
            let (got, on) = (hops[i].received?, hops[i].sent_on()?);
            // Records that contradict the counts around them say nothing.
            (got <= sent? && on <= got && received <= on).then_some((got, on))
        });
        all.push(PathSums {
            path: Path {
                src: window.src,
                spine,
                dst: window.dst,
            },
            windows: u32::from(void.is_none()),
            void_windows: u32::from(void.is_some()),
            void,
            lambda,
            received,
            sent,
            congestion_dropped,
            hop,
            first_marked_ns: window.first_marked_ns,
            closed_ns: window.closed_ns,
        });
    }
    all
}

/// Why no path of the window can be tested, if so.
fn whole_window_void(rules: &Rules, window: &Window) -> Option<VoidReason> {
    if rules.evidence != Evidence::ReceiveOnly {
        return window.sent.is_none().then_some(VoidReason::NoClose);
    }
    // A spine that comes or goes in the middle takes packets from its siblings or
    // gives them some, so an even share of the whole window is no reference.
    if window
        .void
        .iter()
        .any(|(_, reason)| *reason == VoidReason::LinkChanged)
    {
        return Some(VoidReason::LinkChanged);
    }
    match rules.reference {
        Reference::Marked if window.marked.is_none() => Some(VoidReason::NoClose),
        Reference::Marked if window.marked == Some(0) => Some(VoidReason::NothingSent),
        Reference::Announced if window.announced == 0 => Some(VoidReason::NothingSent),
        Reference::SiblingMedian | Reference::SiblingUpper
            if window.counts.iter().all(|&x| x == 0) =>
        {
            Some(VoidReason::NothingSent)
        }
        Reference::Marked
        | Reference::Announced
        | Reference::SiblingMedian
        | Reference::SiblingUpper => None,
    }
}

/// Packets that a healthy path of the window should show.
fn reference(rules: &Rules, window: &Window) -> f64 {
    let k = window.usable.len() as f64;
    match rules.reference {
        Reference::Announced => window.announced as f64 / k,
        Reference::Marked => window.marked.unwrap_or(0) as f64 / k,
        Reference::SiblingUpper => {
            let mut counts = window.counts.clone();
            counts.sort_unstable();
            let rank = (counts.len() * 7).div_ceil(8).max(1);
            counts[rank - 1] as f64
        }
        Reference::SiblingMedian => {
            let mut counts = window.counts.clone();
            counts.sort_unstable();
            let middle = counts.len() / 2;
            if counts.len() % 2 == 1 {
                counts[middle] as f64
            } else {
                (counts[middle - 1] + counts[middle]) as f64 / 2.0
            }
        }
    }
}

fn merged(old: PathSums, new: PathSums) -> PathSums {
    PathSums {
        path: new.path,
        windows: old.windows + new.windows,
        void_windows: old.void_windows + new.void_windows,
        void: new.void.or(old.void),
        lambda: old.lambda + new.lambda,
        received: old.received + new.received,
        sent: old.sent.zip(new.sent).map(|(a, b)| a + b),
        congestion_dropped: old.congestion_dropped + new.congestion_dropped,
        hop: old.hop.zip(new.hop).map(|((a, b), (c, d))| (a + c, b + d)),
        first_marked_ns: old.first_marked_ns.min(new.first_marked_ns),
        closed_ns: old.closed_ns.max(new.closed_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Fabric, SpineId};
    use crate::window::EndReason;

    const FABRIC: Fabric = Fabric {
        leaves: 4,
        spines: 4,
    };

    fn window(usable: &[u16], per_spine: u64, closed_s: u64) -> Window {
        let k = usable.len();
        Window {
            src: LeafId(0),
            dst: LeafId(1),
            qpn: Qpn(1),
            epoch: Epoch(closed_s as u32),
            announced: per_spine * k as u64,
            marked: Some(per_spine * k as u64),
            usable: usable.iter().copied().map(SpineId).collect(),
            counts: vec![per_spine; k],
            sent: Some(vec![per_spine; k]),
            congestion_dropped: vec![0; k],
            hops: None,
            void: Vec::new(),
            end: EndReason::Close,
            first_marked_ns: Nanos(closed_s * 1_000_000_000 - 1),
            closed_ns: Nanos(closed_s * 1_000_000_000),
        }
    }

    fn aggregator() -> Aggregator {
        Aggregator::new(Rules {
            p_min: 1_000,
            ..Rules::new(FABRIC)
        })
    }

    /// Goal: windows are added per spine until P_min, also when k changes.
    #[test]
    fn short_windows_add_up_per_spine() {
        let mut aggregator = aggregator();
        assert!(
            aggregator
                .add(&window(&[0, 1, 2], 400, 1))
                .expect("fits")
                .paths
                .is_empty()
        );
        assert!(
            aggregator
                .add(&window(&[0, 1], 400, 2))
                .expect("fits")
                .paths
                .is_empty()
        );
        let ready = aggregator
            .add(&window(&[0, 1, 2], 400, 3))
            .expect("fits")
            .paths;
        let got: Vec<_> = ready
            .iter()
            .map(|p| (p.path.spine.0, p.sent, p.windows))
            .collect();
        assert_eq!(got, [(0, Some(1_200), 3), (1, Some(1_200), 3)]);
        assert_eq!(ready[0].lambda, 1_200.0);
        assert_eq!(aggregator.waiting(), 1, "spine 2 has 800");
    }

    /// Goal: counts are forgotten one minute after the last window, not before.
    #[test]
    fn waiting_counts_expire_after_a_minute() {
        let mut aggregator = aggregator();
        aggregator.add(&window(&[0, 1], 400, 1)).expect("fits");
        aggregator.expire(Nanos(61_000_000_000));
        assert_eq!(aggregator.waiting(), 2);
        aggregator.expire(Nanos(61_000_000_001));
        assert_eq!((aggregator.waiting(), aggregator.expired()), (0, 2));
    }

    /// Goal: a void window is reported, adds nothing and loses nothing.
    #[test]
    fn a_void_window_leaves_the_sum_alone() {
        let mut aggregator = aggregator();
        aggregator.add(&window(&[0, 1], 600, 1)).expect("fits");
        let mut void = window(&[0, 1], 600, 2);
        void.void = vec![(SpineId(0), VoidReason::ColourClash)];
        let ready = aggregator.add(&void).expect("fits").paths;
        let got: Vec<_> = ready
            .iter()
            .map(|p| (p.path.spine.0, p.windows, p.void))
            .collect();
        assert_eq!(got, [(0, 0, Some(VoidReason::ColourClash)), (1, 2, None)]);
        let ready = aggregator.add(&window(&[0], 600, 3)).expect("fits").paths;
        assert_eq!(
            (ready[0].sent, ready[0].windows, ready[0].void_windows),
            (Some(1_200), 2, 1)
        );
    }

    /// Goal: what cannot be a window of the fabric is refused by name.
    #[test]
    fn malformed_windows_are_refused() {
        let mut short = window(&[0, 1], 400, 1);
        short.counts.pop();
        let refused = aggregator()
            .add(&short)
            .expect_err("one count for two spines");
        assert_eq!(
            refused.to_string(),
            "`counts` has 1 entries for 2 usable spines"
        );
        let unsorted = window(&[1, 0], 400, 1);
        assert_eq!(
            aggregator().add(&unsorted),
            Err(WindowError::UsableNotAscending)
        );
        let outside = window(&[0, 4], 400, 1);
        assert!(matches!(
            aggregator().add(&outside),
            Err(WindowError::OutsideFabric(_))
        ));
    }
}

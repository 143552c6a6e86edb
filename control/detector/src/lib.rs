//! Thresholds, statistical tests and localization: pure code without clock,
//! threads or I/O.
//!
//! The life of a measurement: the agent of a destination leaf turns what its data
//! plane counted into a [`Window`]; the [`Aggregator`] adds windows up to P_min
//! packets per spine; the [`Judge`] tests each path; the monitor's [`Localizer`]
//! takes the [`PathTest`]s of all leaves and names links.
//!
//! ```
//! use detector::{Aggregator, Fabric, Judge, Localizer, Nanos, Rules, Window};
//!
//! # fn windows() -> Vec<Window> { Vec::new() }
//! let rules = Rules::new(Fabric { leaves: 8, spines: 8 });
//! let (mut aggregator, mut judge) = (Aggregator::new(rules), Judge::new(rules));
//! let mut localizer = Localizer::new(rules.localization());
//! for window in windows() {
//!     for test in judge.judge(&aggregator.add(&window)?) {
//!         localizer.add(&test)?;
//!     }
//! }
//! for found in localizer.locate(Nanos(0)).convicted {
//!     println!("{} loses {}", found.link, found.drop_rate);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod aggregate;
pub mod intersect;
pub mod judge;
pub mod likelihood;
pub mod localize;
pub mod noise;
mod recent;
pub mod rules;
pub mod sequential;
mod spells;
mod spine;
pub mod stats;
pub mod tails;
mod tally;
pub mod threshold;
pub mod types;
pub mod window;

pub use aggregate::{Aggregate, Aggregator, PathSums};
pub use intersect::Intersection;
pub use judge::{AbstainReason, Judge, LinkTest, PathState, PathTest};
pub use localize::{
    Cleared, Conviction, Localization, Localizer, LocalizerRules, Missing, Suspect,
};
pub use noise::{Calibration, Noise};
pub use rules::{Evidence, KnownDrops, Reference, Rules, ThresholdRule};
pub use sequential::{Alarm, Sequential};
pub use stats::{NoiseReport, NoiseStats};
pub use types::{Epoch, Fabric, LeafId, Link, Nanos, OutsideFabric, Path, Qpn, SpineId};
pub use window::{EndReason, HopRecord, VoidReason, Window, WindowError};

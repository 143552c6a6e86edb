//! Thresholds, tests and localization.

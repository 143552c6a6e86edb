//! The control thread of a switch.

pub mod result;

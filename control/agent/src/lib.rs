//! The control thread of a switch.

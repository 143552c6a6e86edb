//! The spraycheck command.

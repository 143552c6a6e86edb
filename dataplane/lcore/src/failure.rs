//! What keeps a run from starting, with the exit status that tells whose fault it is.

use std::fmt::Display;

/// A message for people and an exit status (2: usage or configuration; 3: the environment).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What, where, and what to do.
    pub message: String,
    /// 2 or 3.
    pub exit_code: u8,
}

impl Failure {
    /// Wrong usage or configuration.
    pub fn usage(message: impl Display) -> Failure {
        Failure {
            message: message.to_string(),
            exit_code: 2,
        }
    }

    /// The environment lacks something.
    pub fn environment(message: impl Display) -> Failure {
        Failure {
            message: message.to_string(),
            exit_code: 3,
        }
    }
}

impl From<dpdk::Error> for Failure {
    fn from(error: dpdk::Error) -> Failure {
        Failure::environment(error)
    }
}

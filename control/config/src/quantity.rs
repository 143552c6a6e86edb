//! Quantities as people write them: `100Gbps`, `64KiB`, `55us`, `0.5%`.
//!
//! Every configuration value and flag that has a unit is one of these. Reading is strict (a unit
//! is never guessed, nothing is rounded, nothing overflows) and says what to write instead;
//! showing gives text that reads back as the same value. In TOML and JSON they are strings.

mod bytes;
mod decimal;
mod probability;
mod rate;
pub(crate) mod text;
mod time;

pub use bytes::Bytes;
pub use probability::Probability;
pub use rate::Rate;
pub use time::Time;

/// Text that is no quantity of the wanted kind: the text, what is wrong with it, what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no {wanted} ({why}); write it like {example}")]
pub struct QuantityError {
    pub(crate) text: String,
    pub(crate) wanted: &'static str,
    pub(crate) why: String,
    pub(crate) example: &'static str,
}

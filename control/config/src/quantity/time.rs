//! Spans of time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::decimal::Scale;
use super::{QuantityError, text};

/// A span of time: `55us`, `60s`, `100ms`, `5ns`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

const SCALE: Scale = Scale {
    wanted: "time",
    example: "55us",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ],
    bare: false,
};

impl Time {
    /// Of so many nanoseconds.
    pub const fn new(nanos: u64) -> Time {
        Time(nanos)
    }

    /// In nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Time, QuantityError> {
        SCALE.read(text).map(Time)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&SCALE.show(self.0))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        text::read(deserializer, "a time such as \"55us\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Goal: the forms people write have the value they mean, and are shown in the short form.
    #[test]
    fn usual_forms_are_read() {
        for (text, value, shown) in [
            ("55us", 55_000, "55us"),
            ("60s", 60_000_000_000, "60s"),
            ("100ms", 100_000_000, "100ms"),
            ("5ns", 5, "5ns"),
            ("1.5ms", 1_500_000, "1.5ms"),
            ("0.000001ms", 1, "1ns"),
            ("0ns", 0, "0ns"),
        ] {
            let read: Time = text.parse().unwrap();
            assert_eq!(
                (read.nanos(), read.to_string().as_str()),
                (value, shown),
                "{text}"
            );
        }
    }

    /// Goal: what is not meant unmistakably is refused, and the message says why.
    #[test]
    fn mistakes_are_explained() {
        for (text, why) in [
            ("60", "its unit is missing: ns, us, ms, s"),
            ("5m", "none of its units"),
            ("1MS", "its unit is written ms"),
            ("0.1ns", "no whole number of ns"),
            ("99999999999s", "more than 64 bits"),
            ("soon", "does not begin with a number"),
        ] {
            let message = text.parse::<Time>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    proptest! {
        /// Goal: what is shown reads back as the same value, whatever it is.
        #[test]
        fn shown_text_reads_back(value: u64, shift in 0u32..64) {
            let value = Time(value >> shift);
            prop_assert_eq!(value.to_string().parse::<Time>(), Ok(value));
        }

        /// Goal: no text makes it panic.
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.]{0,25}[a-zA-Z]{0,4}") {
            let _ = text.parse::<Time>();
        }
    }
}

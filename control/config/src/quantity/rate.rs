//! Bits per second.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::decimal::Scale;
use super::{QuantityError, text};

/// A rate in bits per second: `100Gbps`, `1.5Gbps`, `800Mbps`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

const SCALE: Scale = Scale {
    wanted: "rate",
    example: "100Gbps",
    units: &[
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
    ],
    bare: false,
};

impl Rate {
    /// Of so many bits per second.
    pub const fn new(bits_per_second: u64) -> Rate {
        Rate(bits_per_second)
    }

    /// In bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Rate, QuantityError> {
        SCALE.read(text).map(Rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&SCALE.show(self.0))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        text::read(deserializer, "a rate such as \"100Gbps\"")
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
            ("100Gbps", 100_000_000_000, "100Gbps"),
            ("1.5Gbps", 1_500_000_000, "1.5Gbps"),
            ("800Mbps", 800_000_000, "800Mbps"),
            ("0.001Mbps", 1_000, "1kbps"),
            ("9600bps", 9_600, "9.6kbps"),
            ("0bps", 0, "0bps"),
        ] {
            let read: Rate = text.parse().unwrap();
            assert_eq!(
                (read.bits_per_second(), read.to_string().as_str()),
                (value, shown),
                "{text}"
            );
        }
    }

    /// Goal: what is not meant unmistakably is refused, and the message says why.
    #[test]
    fn mistakes_are_explained() {
        for (text, why) in [
            ("100", "its unit is missing: bps, kbps, Mbps, Gbps, Tbps"),
            ("100gbps", "its unit is written Gbps"),
            ("100GBit/s", "none of its units"),
            ("", "does not begin with a number"),
            ("-1Gbps", "does not begin"),
            ("0.5bps", "no whole number of bps"),
            ("99999999Tbps", "more than 64 bits"),
            ("1.2.3Gbps", "two decimal points"),
            ("1.Gbps", "a digit is missing"),
            ("1 Gbps", "none of its units"),
            ("99999999999999999999999bps", "more digits"),
        ] {
            let message = text.parse::<Rate>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    proptest! {
        /// Goal: what is shown reads back as the same value, whatever it is.
        #[test]
        fn shown_text_reads_back(value: u64, shift in 0u32..64) {
            let value = Rate(value >> shift);
            prop_assert_eq!(value.to_string().parse::<Rate>(), Ok(value));
        }

        /// Goal: no text makes it panic.
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.]{0,25}[a-zA-Z]{0,4}") {
            let _ = text.parse::<Rate>();
        }
    }
}

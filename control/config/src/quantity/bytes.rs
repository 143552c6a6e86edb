//! Sizes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::decimal::Scale;
use super::{QuantityError, text};

/// A size in bytes: `64KiB`, `1GiB`, `4096`, and `64kB` for 64,000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(u64);

const SCALE: Scale = Scale {
    wanted: "size",
    example: "64KiB",
    units: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ],
    bare: true,
};

impl Bytes {
    /// Of so many bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Bytes, QuantityError> {
        SCALE.read(text).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Binary units where they are exact, decimal ones where those are, else plain bytes.
        let (binary, decimal) = SCALE.units[1..].split_at(4);
        let exact = |units: &[(&'static str, u64)]| {
            let found = units
                .iter()
                .rev()
                .find(|(_, size)| self.0.is_multiple_of(*size));
            found.copied().filter(|_| self.0 > 0)
        };
        match exact(binary).or_else(|| exact(decimal)) {
            Some((name, size)) => write!(f, "{}{name}", self.0 / size),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        text::read(deserializer, "a size such as \"64KiB\"")
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
            ("64KiB", 65_536, "64KiB"),
            ("1GiB", 1 << 30, "1GiB"),
            ("64MiB", 64 << 20, "64MiB"),
            ("4096", 4096, "4KiB"),
            ("4097B", 4097, "4097"),
            ("2.5MB", 2_500_000, "2500kB"),
            ("0.5KiB", 512, "512"),
            ("0", 0, "0"),
        ] {
            let read: Bytes = text.parse().unwrap();
            assert_eq!(
                (read.bytes(), read.to_string().as_str()),
                (value, shown),
                "{text}"
            );
        }
    }

    /// Goal: what is not meant unmistakably is refused, and the message says why.
    #[test]
    fn mistakes_are_explained() {
        for (text, why) in [
            ("64Kib", "its unit is written KiB"),
            ("64M", "none of its units"),
            ("64KB", "its unit is written kB"),
            ("0.3B", "no whole number of B"),
            ("99999999TiB", "more than 64 bits"),
            ("1e6", "none of its units"),
            ("lots", "does not begin with a number"),
        ] {
            let message = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    proptest! {
        /// Goal: what is shown reads back as the same value, whatever it is.
        #[test]
        fn shown_text_reads_back(value: u64, shift in 0u32..64) {
            let value = Bytes(value >> shift);
            prop_assert_eq!(value.to_string().parse::<Bytes>(), Ok(value));
        }

        /// Goal: no text makes it panic.
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.]{0,25}[a-zA-Z]{0,4}") {
            let _ = text.parse::<Bytes>();
        }
    }
}

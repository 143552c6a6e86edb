//! Probabilities.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{QuantityError, text};

/// A probability from 0 to 1: `0.005`, `2e-5`, `0.5%`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Probability(f64);

impl Probability {
    /// The probability of such a value; `None` unless it is from 0 to 1.
    pub fn new(value: f64) -> Option<Probability> {
        // Adding zero makes -0.0 plain zero.
        (0.0..=1.0)
            .contains(&value)
            .then_some(Probability(value + 0.0))
    }

    /// From 0 to 1.
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Probability {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Probability, QuantityError> {
        let wrong = |why: &str| QuantityError {
            text: text.to_owned(),
            wanted: "probability",
            why: why.to_owned(),
            example: "0.005 or 0.5%",
        };
        let (number, divisor) = match text.strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text, 1.0),
        };
        // f64's own words and signs (inf, nan, +1) are no way to write a probability.
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong("it does not begin with a digit"));
        }
        let value: f64 = number.parse().map_err(|_| wrong("it is no number"))?;
        Probability::new(value / divisor).ok_or_else(|| wrong("it is more than 1"))
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Probability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Probability, D::Error> {
        text::read(deserializer, "a probability such as \"0.005\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Goal: the forms people write have the value they mean.
    #[test]
    fn usual_forms_are_read() {
        for (text, value) in [
            ("0.005", 0.005),
            ("0.5%", 0.005),
            ("2e-5", 2e-5),
            ("100%", 1.0),
            ("0", 0.0),
            ("1", 1.0),
        ] {
            assert_eq!(
                text.parse::<Probability>().unwrap().value(),
                value,
                "{text}"
            );
        }
    }

    /// Goal: what is no probability is refused, and the message says why.
    #[test]
    fn mistakes_are_explained() {
        for (text, why) in [
            ("1.01", "more than 1"),
            ("101%", "more than 1"),
            ("-0.1", "does not begin with a digit"),
            ("nan", "does not begin with a digit"),
            ("inf", "does not begin with a digit"),
            ("", "does not begin with a digit"),
            ("0,5", "no number"),
            ("1e999", "more than 1"),
        ] {
            let message = text.parse::<Probability>().unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
        assert_eq!(Probability::new(f64::NAN), None);
    }

    proptest! {
        /// Goal: what is shown reads back as the same value.
        #[test]
        fn shown_text_reads_back(value in 0.0f64..=1.0) {
            let value = Probability::new(value).unwrap();
            prop_assert_eq!(value.to_string().parse::<Probability>(), Ok(value));
        }
    }
}

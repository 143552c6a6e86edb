//! Exact decimal arithmetic: a number with a unit becomes a whole count of the base unit, or an
//! explanation. No floating point, so no rounding.

use super::QuantityError;

/// A kind of quantity: its name, an example, and its units with their size in the base unit.
pub(super) struct Scale {
    pub(super) wanted: &'static str,
    pub(super) example: &'static str,
    /// Name and size; the first is the base unit.
    pub(super) units: &'static [(&'static str, u64)],
    /// Whether a number without a unit is in the base unit.
    pub(super) bare: bool,
}

impl Scale {
    /// The count of base units that `text` says.
    pub(super) fn read(&self, text: &str) -> Result<u64, QuantityError> {
        self.count(text).map_err(|why| QuantityError {
            text: text.to_owned(),
            wanted: self.wanted,
            why,
            example: self.example,
        })
    }

    fn count(&self, text: &str) -> Result<u64, String> {
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        if number.is_empty() {
            return Err("it does not begin with a number".to_owned());
        }
        let size = u128::from(self.size(unit)?);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| match part.parse::<u64>() {
            Ok(value) => Ok(u128::from(value)),
            Err(_) if part.bytes().any(|c| c == b'.') => Err("it has two decimal points".into()),
            Err(_) if part.is_empty() => Err("a digit is missing beside the point".to_owned()),
            Err(_) => Err("it has more digits than 64 bits hold".to_owned()),
        };
        let part = digits(fraction)? * size;
        if fraction.len() > 19 {
            return Err("it has more digits than 64 bits hold".to_owned());
        }
        let power = 10u128.pow(fraction.len() as u32);
        if part % power != 0 {
            let base = self.units[0].0;
            return Err(format!("it is no whole number of {base}"));
        }
        let count = digits(whole)? * size + part / power;
        u64::try_from(count).map_err(|_| "it is more than 64 bits hold".to_owned())
    }

    fn size(&self, unit: &str) -> Result<u64, String> {
        if unit.is_empty() && self.bare {
            return Ok(self.units[0].1);
        }
        if let Some((_, size)) = self.units.iter().find(|(name, _)| *name == unit) {
            return Ok(*size);
        }
        let names: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        if unit.is_empty() {
            return Err(format!("its unit is missing: {names}"));
        }
        let close = |name: &&(&'static str, u64)| name.0.eq_ignore_ascii_case(unit);
        match self.units.iter().find(close) {
            Some((name, _)) => Err(format!("its unit is written {name}")),
            None => Err(format!("\"{unit}\" is none of its units: {names}")),
        }
    }

    /// The shortest text with at most three decimals, in the largest unit that allows it.
    pub(super) fn show(&self, count: u64) -> String {
        let fits = |size: u64| count >= size && u128::from(count) * 1000 % u128::from(size) == 0;
        let (base, _) = self.units[0];
        let best = self
            .units
            .iter()
            .filter(|(_, size)| fits(*size))
            .max_by_key(|unit| unit.1);
        let (name, size) = best.map_or((base, 1), |unit| *unit);
        let thousandths = u128::from(count % size) * 1000 / u128::from(size);
        let fraction = format!("{thousandths:03}");
        match fraction.trim_end_matches('0') {
            "" => format!("{}{name}", count / size),
            digits => format!("{}.{digits}{name}", count / size),
        }
    }
}

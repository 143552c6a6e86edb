//! Numbers for people.

/// With commas: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate in percent, to three digits: `0.494 %`.
pub(crate) fn percent(rate: f64) -> String {
    format!("{} %", significant(100.0 * rate))
}

/// To three significant digits at least, without an exponent.
pub(crate) fn significant(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let decimals = (2 - number.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: numbers of every size are readable and not rounded away.
    #[test]
    fn numbers_are_readable() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
        for (rate, text) in [
            (0.00494, "0.494 %"),
            (0.01, "1 %"),
            (1.0, "100 %"),
            (2.5e-5, "0.0025 %"),
            (0.0, "0 %"),
            (0.123_45, "12.3 %"),
        ] {
            assert_eq!(percent(rate), text);
        }
        assert_eq!(significant(12_345.6), "12346");
    }
}

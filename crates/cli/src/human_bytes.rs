//! A number of bytes as people read it.

/// `1.64M`
pub fn human(bytes: i64) -> String {
    let value = bytes as f64;
    match bytes {
        ..1024 => format!("{bytes}B"),
        1024..0x10_0000 => format!("{:.2}K", value / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.2}M", value / 1_048_576.0),
        _ => format!("{:.2}G", value / 1_073_741_824.0),
    }
}

/// Formats a number that is never below zero.
pub fn human_u64(bytes: u64) -> String {
    human(i64::try_from(bytes).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (bytes, text) in [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (5 << 20, "5.00M"), (3 << 30, "3.00G")] {
            assert_eq!(human(bytes), text);
        }
    }
}

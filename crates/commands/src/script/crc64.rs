//! CRC-64 with Jones's polynomial, reflected, as dumps and RDB files end with it.

/// 0xAD93D23594C935A9 with its bits reversed.
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

const TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

pub(super) fn of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_is_the_published_one() {
        assert_eq!(super::of(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }
}

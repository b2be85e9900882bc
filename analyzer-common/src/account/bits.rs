//! Bit length of a number, for processors without an instruction for it.

/// Bit lengths of numbers below 256.
static LENGTHS: [u8; 256] = {
    let mut table = [0; 256];
    let mut number = 1;
    while number < 256 {
        table[number] = table[number / 2] + 1;
        number += 1;
    }
    table
};

/// Bit length of a number, 0 to 32: 0 has 0, 255 has 8, 256 has 9.
///
/// BPF has no instruction to count leading zeros. The compiler's replacement takes some 25 instructions, a
/// table lookup less.
#[inline(always)]
pub(super) fn bit_length(number: u32) -> u32 {
    let shift = if number >= 1 << 16 {
        if number >= 1 << 24 { 24 } else { 16 }
    } else if number >= 1 << 8 {
        8
    } else {
        0
    };
    // The mask has no effect but avoids the bounds check.
    shift + u32::from(LENGTHS[(number >> shift) as usize & 0xFF])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_length_matches_leading_zeros() {
        for bit in 0..32 {
            for number in [1 << bit, (1 << bit) - 1, (1 << bit) | 1, u32::MAX >> bit] {
                assert_eq!(bit_length(number), u32::BITS - number.leading_zeros(), "{number}");
            }
        }
    }
}

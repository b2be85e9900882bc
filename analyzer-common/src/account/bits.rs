//! How long a number is in bits, for processors that have no instruction for it.

/// Bits of a number below 256.
static LENGTHS: [u8; 256] = {
    let mut table = [0; 256];
    let mut number = 1;
    while number < 256 {
        table[number] = table[number / 2] + 1;
        number += 1;
    }
    table
};

/// The bits that a number takes, 0 to 32: 0 takes none, 255 takes 8, 256 takes 9.
///
/// The BPF machine cannot count leading zeros; what the compiler puts in its place is some 25 instructions,
/// and this a look into a table.
#[inline(always)]
#[must_use]
pub(super) fn bit_length(number: u32) -> u32 {
    let shift = if number >= 1 << 16 {
        if number >= 1 << 24 { 24 } else { 16 }
    } else if number >= 1 << 8 {
        8
    } else {
        0
    };
    // The mask changes nothing, and spares the check of the index.
    shift + u32::from(LENGTHS[(number >> shift) as usize & 0xFF])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_bits_as_leading_zeros_leave() {
        for bit in 0..32 {
            for number in [1 << bit, (1 << bit) - 1, (1 << bit) | 1, u32::MAX >> bit] {
                assert_eq!(bit_length(number), u32::BITS - number.leading_zeros(), "{number}");
            }
        }
    }
}

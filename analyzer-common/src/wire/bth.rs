//! The base transport header and the 24-bit numbers in it.

/// Length of the BTH in bytes.
pub const LEN: usize = 12;
/// Length of the invariant CRC in bytes.
pub const ICRC_LEN: u32 = 4;
/// Mask of the 24-bit numbers: packet sequence numbers and queue pair numbers.
pub const MASK24: u32 = 0x00FF_FFFF;
/// Half of them: a PSN that is less ahead of another is later.
pub const HALF24: u32 = 1 << 23;
/// QP 1, the general services interface (GSI), which carries connection management.
pub const GSI_QP: u32 = 1;

/// Number of PSNs from one to another, in the order in which a sender uses them.
#[inline]
pub const fn psn_distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & MASK24
}

/// The base transport header.
///
/// ```text
///  0        8        16                24       31
/// | opcode | S M PP TVER |        P_Key         |
/// |F B rsvd|        destination QP              |
/// |A  rsvd |               PSN                  |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth(pub [u8; LEN]);

impl Bth {
    /// Operation code: three bits of transport, five of operation.
    #[inline(always)]
    pub const fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// Solicited event bit (`SE`) of the BTH.
    pub const fn solicited(&self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// Migration state bit (`MigReq`) of the BTH.
    pub const fn migreq(&self) -> bool {
        self.0[1] & 0x40 != 0
    }

    /// Padding bytes after the payload, to a multiple of four: 0 to 3.
    #[inline(always)]
    pub const fn pad(&self) -> u8 {
        (self.0[1] >> 4) & 3
    }

    /// Transport header version; 0 in all known versions.
    pub const fn version(&self) -> u8 {
        self.0[1] & 0x0F
    }

    /// Partition key (`P_Key`) of the BTH.
    pub const fn pkey(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// Forward explicit congestion notification (FECN). Unused by RoCEv2 data packets.
    pub const fn fecn(&self) -> bool {
        self.0[4] & 0x80 != 0
    }

    /// Backward explicit congestion notification (BECN): set in CNPs.
    pub const fn becn(&self) -> bool {
        self.0[4] & 0x40 != 0
    }

    /// Destination queue pair number, 24 bits.
    #[inline(always)]
    pub const fn dest_qp(&self) -> u32 {
        u32::from_be_bytes([0, self.0[5], self.0[6], self.0[7]])
    }

    /// AckReq: the sender requests an acknowledgement.
    #[inline(always)]
    pub const fn ack_req(&self) -> bool {
        self.0[8] & 0x80 != 0
    }

    /// Packet sequence number, 24 bits.
    #[inline(always)]
    pub const fn psn(&self) -> u32 {
        u32::from_be_bytes([0, self.0[9], self.0[10], self.0[11]])
    }
}

#[cfg(test)]
mod tests {
    use super::Bth;

    #[test]
    fn fields_of_a_cnp_and_of_reserved_bits() {
        // The CNP of a ConnectX-4 Lx: BECN set, PSN 0.
        let cnp = Bth([0x81, 0, 0xff, 0xff, 0x40, 0, 1, 0x18, 0, 0, 0, 0]);
        assert_eq!(
            (cnp.opcode(), cnp.becn(), cnp.fecn(), cnp.dest_qp(), cnp.psn()),
            (0x81, true, false, 0x118, 0)
        );
        assert_eq!(cnp.pkey(), 0xffff);
        // Some hardware sets reserved bits of byte 4, which have no meaning.
        let hns = Bth([0x06, 0xF5, 0xff, 0xff, 0x10, 0xff, 0xfe, 0xfd, 0x80, 1, 2, 3]);
        assert!(!hns.becn() && !hns.fecn() && hns.solicited() && hns.migreq() && hns.ack_req());
        assert_eq!((hns.pad(), hns.version(), hns.dest_qp(), hns.psn()), (3, 5, 0xff_fefd, 0x01_0203));
    }
}

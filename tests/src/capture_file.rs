//! Capture files for tests: classic pcap in its four forms, and pcapng.

/// Link type of Ethernet.
pub const ETHERNET: u16 = 1;
/// Link type of raw IP.
pub const RAW_IP: u16 = 101;
/// Link type of a Linux cooked capture, version 1.
pub const SLL: u16 = 113;
/// Link type of a Linux cooked capture, version 2.
pub const SLL2: u16 = 276;

/// The byte order of a file's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    fn u16(self, n: u16) -> [u8; 2] {
        if self == Self::Little { n.to_le_bytes() } else { n.to_be_bytes() }
    }

    fn u32(self, n: u32) -> [u8; 4] {
        if self == Self::Little { n.to_le_bytes() } else { n.to_be_bytes() }
    }
}

/// A classic pcap file.
#[derive(Clone, Debug)]
pub struct Pcap {
    order: Order,
    nanoseconds: bool,
    snap_len: u32,
    bytes: Vec<u8>,
}

impl Pcap {
    /// A file without packets. Timestamps are in nanoseconds or microseconds.
    pub fn new(order: Order, nanoseconds: bool, link_type: u16) -> Self {
        Self::with_snap_len(order, nanoseconds, link_type, 262_144)
    }

    /// The same, keeping only `snap_len` bytes of each packet.
    pub fn with_snap_len(order: Order, nanoseconds: bool, link_type: u16, snap_len: u32) -> Self {
        let magic = if nanoseconds { 0xA1B2_3C4D } else { 0xA1B2_C3D4 };
        let mut bytes = order.u32(magic).to_vec();
        bytes.extend(order.u16(2));
        bytes.extend(order.u16(4));
        for word in [0, 0, snap_len, u32::from(link_type)] {
            bytes.extend(order.u32(word));
        }
        Self { order, nanoseconds, snap_len, bytes }
    }

    /// Appends a packet; `time_ns` is Unix time, rounded down to the resolution of the file.
    pub fn packet(&mut self, time_ns: u64, frame: &[u8]) -> &mut Self {
        self.start_of_packet(time_ns, frame, frame.len().min(self.snap_len as usize))
    }

    /// Appends the first `kept` bytes of a packet.
    pub fn start_of_packet(&mut self, time_ns: u64, frame: &[u8], kept: usize) -> &mut Self {
        let fraction = time_ns % 1_000_000_000;
        let fraction = if self.nanoseconds { fraction } else { fraction / 1_000 };
        for word in [(time_ns / 1_000_000_000) as u32, fraction as u32, kept as u32, frame.len() as u32] {
            self.bytes.extend(self.order.u32(word));
        }
        self.bytes.extend(&frame[..kept]);
        self
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

/// A pcapng file. It starts with one section; more may follow.
#[derive(Clone, Debug)]
pub struct PcapNg {
    order: Order,
    bytes: Vec<u8>,
    resolutions: Vec<u8>,
}

impl PcapNg {
    /// A file with one section and no interface.
    pub fn new(order: Order) -> Self {
        let mut file = Self { order, bytes: Vec::new(), resolutions: Vec::new() };
        file.section(order);
        file
    }

    /// Starts another section; its interfaces are numbered from 0 again.
    pub fn section(&mut self, order: Order) -> &mut Self {
        self.order = order;
        self.resolutions.clear();
        let mut body = order.u32(0x1A2B_3C4D).to_vec();
        body.extend(order.u16(1));
        body.extend(order.u16(0));
        // Unspecified section length.
        body.extend([0xFF; 8]);
        self.block(0x0A0D_0D0A, &body)
    }

    /// Adds an interface. `resolution` is the `if_tsresol` byte: 6 for microseconds, 9 for
    /// nanoseconds, with the upper bit a power of two; `None` leaves the option out (which means
    /// microseconds).
    pub fn interface(&mut self, name: Option<&str>, link_type: u16, resolution: Option<u8>) -> &mut Self {
        let mut body = self.order.u16(link_type).to_vec();
        body.extend([0; 2]);
        body.extend(self.order.u32(0));
        if let Some(name) = name {
            self.option(&mut body, 2, name.as_bytes());
        }
        if let Some(resolution) = resolution {
            self.option(&mut body, 9, &[resolution]);
        }
        if name.is_some() || resolution.is_some() {
            self.option(&mut body, 0, &[]);
        }
        self.resolutions.push(resolution.unwrap_or(6));
        self.block(1, &body)
    }

    /// Appends an enhanced packet block. `time_ns` is Unix time, rounded down to the interface's resolution.
    /// `original` is the length on the wire, if it exceeds the captured bytes.
    pub fn packet(&mut self, interface: u32, time_ns: u64, frame: &[u8], original: Option<u32>) -> &mut Self {
        let resolution = self.resolutions[interface as usize];
        let per_second = if resolution & 0x80 == 0 {
            10u128.pow(u32::from(resolution))
        } else {
            1u128 << (resolution & 0x7F)
        };
        let ticks = (u128::from(time_ns) * per_second / 1_000_000_000) as u64;
        let original = original.unwrap_or(frame.len() as u32);
        let mut body = Vec::new();
        for word in [interface, (ticks >> 32) as u32, ticks as u32, frame.len() as u32, original] {
            body.extend(self.order.u32(word));
        }
        body.extend(frame);
        self.block(6, &body)
    }

    /// Appends a simple packet block: interface 0, no timestamp.
    pub fn simple_packet(&mut self, frame: &[u8]) -> &mut Self {
        let mut body = self.order.u32(frame.len() as u32).to_vec();
        body.extend(frame);
        self.block(3, &body)
    }

    /// Appends interface statistics with `isb_ifdrop`: packets dropped by the interface.
    pub fn dropped(&mut self, interface: u32, packets: u64) -> &mut Self {
        let mut body = self.order.u32(interface).to_vec();
        body.extend([0; 8]);
        let bytes = if self.order == Order::Little { packets.to_le_bytes() } else { packets.to_be_bytes() };
        self.option(&mut body, 5, &bytes);
        self.option(&mut body, 0, &[]);
        self.block(5, &body)
    }

    /// Appends any block; the body is padded to whole words.
    pub fn block(&mut self, kind: u32, body: &[u8]) -> &mut Self {
        let padded = body.len().next_multiple_of(4);
        let length = self.order.u32((12 + padded) as u32);
        self.bytes.extend(self.order.u32(kind));
        self.bytes.extend(length);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.bytes.extend(length);
        self
    }

    fn option(&self, body: &mut Vec<u8>, code: u16, value: &[u8]) {
        body.extend(self.order.u16(code));
        body.extend(self.order.u16(value.len() as u16));
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

/// The header of an ERF record around a packet of an InfiniBand link (local route header to VCRC): time in units of
/// 2^-32 s, lengths.
pub fn erf_header(time_ns: u64, len: u16) -> Vec<u8> {
    const TYPE_INFINIBAND: u8 = 21;
    let fraction = ((u128::from(time_ns % 1_000_000_000) << 32) / 1_000_000_000) as u64;
    let mut header = ((time_ns / 1_000_000_000) << 32 | fraction).to_le_bytes().to_vec();
    header.extend([TYPE_INFINIBAND, 4]);
    for word in [len + 16, 0, len] {
        header.extend(word.to_be_bytes());
    }
    header
}

/// A packet of an InfiniBand link in an ERF record without a time.
pub fn erf(packet: &[u8]) -> Vec<u8> {
    let mut record = erf_header(0, packet.len() as u16);
    record.extend(packet);
    record
}

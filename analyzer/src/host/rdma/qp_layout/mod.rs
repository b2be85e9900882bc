//! Layout of the kernel's queue pairs and their attributes from BTF, and decoding of records with it.

use std::net::{IpAddr, Ipv6Addr};

use rocescope_common::abi::qp::{ABSENT, ATTR_BYTES, QP_BYTES, QpLayout, QpRecord};

use crate::host::kernel::btf::{Btf, Field, Struct};

/// Offsets for the kernel programs, and those within the structures that they copy.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Offsets for the kernel programs.
    pub programs: QpLayout,
    qp_num: Field,
    qp_type: Option<Field>,
    port: Option<Field>,
    state: Field,
    path_mtu: Option<Field>,
    rq_psn: Option<Field>,
    sq_psn: Option<Field>,
    dest_qp: Option<Field>,
    dgid: Option<Field>,
    flow_label: Option<Field>,
    traffic_class: Option<Field>,
    timeout: Option<Field>,
    retry_cnt: Option<Field>,
    rnr_retry: Option<Field>,
}

impl Layout {
    /// The layout of the kernel described by `btf`.
    ///
    /// # Errors
    /// The missing structure or field without which no queue pair can be followed.
    pub fn of(btf: &Btf) -> Result<Self, String> {
        let structure = |name: &str| btf.find(name).ok_or_else(|| format!("struct {name}"));
        let (qp, attr) = (structure("ib_qp")?, structure("ib_qp_attr")?);
        let (device, event) = (structure("ib_device")?, structure("ib_event")?);
        let of_attr = |path: &str| attr.field(path).filter(|field| is_within(*field, ATTR_BYTES));
        let fits = |of: &Struct<'_>, most: usize| of.size().min(u32::try_from(most).unwrap_or(u32::MAX));
        let or_absent = |field: Option<Field>| field.map_or(ABSENT, |field| field.offset);
        let gid = btf.find("ib_gid_attr").and_then(|gid| gid.field("gid"));
        let tgid = btf.find("task_struct").and_then(|task| task.field("tgid"));
        Ok(Self {
            programs: QpLayout {
                qp_size: fits(&qp, QP_BYTES),
                attr_size: fits(&attr, ATTR_BYTES),
                qp_device: needed(&qp, "ib_qp", "device")?.offset,
                device_name: needed(&device, "ib_device", "name")?.offset,
                qp_sgid: if gid.is_some() { or_absent(qp.field("av_sgid_attr")) } else { ABSENT },
                qp_real: or_absent(qp.field("real_qp")),
                qp_task: if tgid.is_some() { or_absent(qp.field("res.task")) } else { ABSENT },
                task_tgid: or_absent(tgid),
                gid: or_absent(gid),
                event_device: or_absent(event.field("device")),
                event_element: or_absent(event.field("element")),
                event_type: or_absent(event.field("event")),
            },
            qp_num: copied(&qp, QP_BYTES, "ib_qp", "qp_num")?,
            qp_type: qp.field("qp_type").filter(|field| is_within(*field, QP_BYTES)),
            port: qp.field("port").filter(|field| is_within(*field, QP_BYTES)),
            state: copied(&attr, ATTR_BYTES, "ib_qp_attr", "qp_state")?,
            path_mtu: of_attr("path_mtu"),
            rq_psn: of_attr("rq_psn"),
            sq_psn: of_attr("sq_psn"),
            dest_qp: of_attr("dest_qp_num"),
            dgid: of_attr("ah_attr.grh.dgid"),
            flow_label: of_attr("ah_attr.grh.flow_label"),
            traffic_class: of_attr("ah_attr.grh.traffic_class"),
            timeout: of_attr("timeout"),
            retry_cnt: of_attr("retry_cnt"),
            rnr_retry: of_attr("rnr_retry"),
        })
    }

    /// Fields that the kernel does not have, whose values are unknown for all queue pairs.
    pub fn absent(&self) -> Vec<&'static str> {
        let of = &self.programs;
        let at = |offset: u32| offset != ABSENT;
        let fields = [
            ("ib_qp.av_sgid_attr", at(of.qp_sgid)),
            ("ib_qp.real_qp", at(of.qp_real)),
            ("ib_qp.res.task", at(of.qp_task)),
            ("task_struct.tgid", at(of.task_tgid)),
            ("ib_qp.qp_type", self.qp_type.is_some()),
            ("ib_qp.port", self.port.is_some()),
            ("ib_event.device", at(of.event_device)),
            ("ib_event.element", at(of.event_element)),
            ("ib_event.event", at(of.event_type)),
            ("ib_qp_attr.path_mtu", self.path_mtu.is_some()),
            ("ib_qp_attr.dest_qp_num", self.dest_qp.is_some()),
            ("ib_qp_attr.ah_attr.grh.dgid", self.dgid.is_some()),
            ("ib_qp_attr.ah_attr.grh.flow_label", self.flow_label.is_some()),
            ("ib_qp_attr.ah_attr.grh.traffic_class", self.traffic_class.is_some()),
            ("ib_qp_attr.timeout", self.timeout.is_some()),
            ("ib_qp_attr.retry_cnt", self.retry_cnt.is_some()),
            ("ib_qp_attr.rnr_retry", self.rnr_retry.is_some()),
        ];
        fields.into_iter().filter(|(_, is_there)| !is_there).map(|(field, _)| field).collect()
    }

    /// Number of the queue pair. `None`: none was created, or it could not be read.
    pub fn qp_num(&self, record: &QpRecord) -> Option<u32> {
        number(qp_bytes(record), Some(self.qp_num))
    }

    /// Transport, numbered as in `enum ib_qp_type`.
    pub fn qp_type(&self, record: &QpRecord) -> Option<u8> {
        u8::try_from(number(qp_bytes(record), self.qp_type)?).ok()
    }

    /// Port, from 1. `None`: not chosen yet.
    pub fn port(&self, record: &QpRecord) -> Option<u32> {
        number(qp_bytes(record), self.port).filter(|port| *port != 0)
    }

    /// The attributes of a call that its mask includes.
    pub fn attributes(&self, record: &QpRecord, mask: u32) -> Attributes {
        let bytes = record.attr_bytes.get(..usize::from(record.attr_len)).unwrap_or_default();
        let value = |bit: u32, field| number(bytes, field).filter(|_| mask & bit != 0);
        let byte = |bit, field| value(bit, field).and_then(|value| u8::try_from(value).ok());
        Attributes {
            state: byte(mask::STATE, Some(self.state)),
            path_mtu: value(mask::PATH_MTU, self.path_mtu).and_then(mtu),
            rq_psn: value(mask::RQ_PSN, self.rq_psn),
            sq_psn: value(mask::SQ_PSN, self.sq_psn),
            dest_qp: value(mask::DEST_QPN, self.dest_qp),
            peer: self.dgid.filter(|_| mask & mask::AV != 0).and_then(|field| gid(bytes, field)),
            flow_label: value(mask::AV, self.flow_label),
            traffic_class: byte(mask::AV, self.traffic_class),
            timeout: byte(mask::TIMEOUT, self.timeout),
            retry_cnt: byte(mask::RETRY_CNT, self.retry_cnt),
            rnr_retry: byte(mask::RNR_RETRY, self.rnr_retry),
        }
    }

    /// The attributes that the answer to a query of this driver has. Drivers leave fields out, which then are 0 or
    /// anything: they must not replace what a verb has set.
    pub fn queried(&self, record: &QpRecord, driver: Option<&str>) -> Attributes {
        let state = self.attributes(record, mask::STATE).state.unwrap_or(0);
        let has = mask::known_in(state) & mask::of_type(self.qp_type(record)) & mask::filled_by(driver);
        let mut found = self.attributes(record, has);
        // Without a peer there is no path: irdma never fills it in, and ionic only if a mask asks for it.
        if found.peer.is_none() {
            (found.flow_label, found.traffic_class) = (None, None);
        }
        let sending = [found.timeout, found.retry_cnt, found.rnr_retry];
        if sending.iter().all(|value| value.is_none_or(|value| value == 0)) {
            (found.retry_cnt, found.rnr_retry) = (None, None);
        }
        found.timeout = found.timeout.filter(|exponent| *exponent != 0);
        found
    }
}

/// `enum ib_qp_attr_mask` of rdma/ib_verbs.h.
pub mod mask {
    /// `IB_QP_STATE`.
    pub const STATE: u32 = 1;
    /// `IB_QP_AV`: the path to the peer.
    pub const AV: u32 = 1 << 7;
    /// `IB_QP_PATH_MTU`.
    pub const PATH_MTU: u32 = 1 << 8;
    /// `IB_QP_TIMEOUT`.
    pub const TIMEOUT: u32 = 1 << 9;
    /// `IB_QP_RETRY_CNT`.
    pub const RETRY_CNT: u32 = 1 << 10;
    /// `IB_QP_RNR_RETRY`.
    pub const RNR_RETRY: u32 = 1 << 11;
    /// `IB_QP_RQ_PSN`.
    pub const RQ_PSN: u32 = 1 << 12;
    /// `IB_QP_SQ_PSN`.
    pub const SQ_PSN: u32 = 1 << 16;
    /// `IB_QP_DEST_QPN`.
    pub const DEST_QPN: u32 = 1 << 20;
    /// Mask of all attributes.
    pub const ALL: u32 = u32::MAX;
    const OF_PATH: u32 = AV | PATH_MTU | DEST_QPN | RQ_PSN;
    const OF_SENDING: u32 = TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN;

    /// The attributes that have values in a state (`enum ib_qp_state`). A query fills in all fields, with 0 for those
    /// without a value.
    pub const fn known_in(state: u8) -> u32 {
        match state {
            // RESET, INIT.
            0 | 1 => ALL & !OF_PATH & !OF_SENDING,
            // RTR.
            2 => ALL & !OF_SENDING,
            _ => ALL,
        }
    }

    /// The attributes that a queue pair of this type (`enum ib_qp_type`) has. Others are 0 in an answer, or have
    /// another meaning.
    pub const fn of_type(qp_type: Option<u8>) -> u32 {
        match qp_type {
            // RC, XRC_INI.
            Some(2 | 9) => ALL,
            // UC waits for no answers, XRC_TGT sends no requests.
            Some(3 | 10) => ALL & !OF_SENDING,
            // Each request of a datagram names its path and peer.
            _ => ALL & !OF_PATH & !OF_SENDING,
        }
    }

    /// The attributes that a driver fills in: erdma leaves the others as they are on the kernel's stack.
    pub fn filled_by(driver: Option<&str>) -> u32 {
        if driver == Some("erdma") { STATE } else { ALL }
    }
}

/// Attributes of a queue pair; `None` for those that a call does not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// State, a value of `enum ib_qp_state`.
    pub state: Option<u8>,
    /// Path MTU. Unit: bytes.
    pub path_mtu: Option<u32>,
    /// First expected PSN.
    pub rq_psn: Option<u32>,
    /// First PSN to send.
    pub sq_psn: Option<u32>,
    /// Peer's queue pair.
    pub dest_qp: Option<u32>,
    /// Peer's address.
    pub peer: Option<IpAddr>,
    /// Flow label of the path; 0 for none.
    pub flow_label: Option<u32>,
    /// Traffic class, DSCP in its upper six bits.
    pub traffic_class: Option<u8>,
    /// Exponent of the transport timeout: 4.096 µs · 2^timeout; 0 disables it.
    pub timeout: Option<u8>,
    /// Retries after a timeout or a sequence error, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// Retries after an RNR NAK; 7 means unlimited.
    pub rnr_retry: Option<u8>,
}

/// A field that must be there.
fn needed(of: &Struct<'_>, name: &str, path: &str) -> Result<Field, String> {
    of.field(path).ok_or_else(|| format!("field {path} of struct {name}"))
}

/// The same of a structure that the programs copy this many bytes of: kernels built for debugging have longer ones.
fn copied(of: &Struct<'_>, bytes: usize, name: &str, path: &str) -> Result<Field, String> {
    let field = needed(of, name, path)?;
    is_within(field, bytes)
        .then_some(field)
        .ok_or_else(|| format!("field {path} in the first {bytes} bytes of struct {name}"))
}

/// True if a field lies in the first bytes of its structure.
fn is_within(field: Field, bytes: usize) -> bool {
    u64::from(field.offset) + u64::from(field.size) <= bytes as u64
}

fn qp_bytes(record: &QpRecord) -> &[u8] {
    record.qp_bytes.get(..usize::from(record.qp_len)).unwrap_or_default()
}

/// A number of one, two or four bytes.
fn number(bytes: &[u8], field: Option<Field>) -> Option<u32> {
    let field = field?;
    let start = field.offset as usize;
    let bytes = bytes.get(start..start.checked_add(field.size as usize)?)?;
    match bytes {
        [byte] => Some(u32::from(*byte)),
        [a, b] => Some(u32::from(u16::from_ne_bytes([*a, *b]))),
        [a, b, c, d] => Some(u32::from_ne_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

/// `enum ib_mtu` in bytes.
fn mtu(code: u32) -> Option<u32> {
    (1..=5).contains(&code).then(|| 128 << code)
}

fn gid(bytes: &[u8], field: Field) -> Option<IpAddr> {
    let start = field.offset as usize;
    address(bytes.get(start..)?.first_chunk()?)
}

/// The address in a GID, as RoCEv2 uses it; `None` for an empty one.
pub fn address(gid: &[u8; 16]) -> Option<IpAddr> {
    let address = Ipv6Addr::from(*gid);
    (!address.is_unspecified()).then(|| address.to_canonical())
}

#[cfg(test)]
pub(crate) mod kernels;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::host::kernel::btf::tests::Writer;
    use rocescope_common::abi::qp::{COMM, DEVICE_NAME, kind};

    /// A kernel whose structures have the fields of Debian's 6.1 at other offsets.
    pub(crate) fn kernel() -> Vec<u8> {
        let mut base = Writer::base();
        let (byte, word, long) = (base.int(1), base.int(4), base.int(8));
        let (name, raw) = (base.array(byte, 64), base.array(byte, 16));
        base.structure("ib_device", 128, &[("ops", long, 0), ("name", name, 64)]);
        base.structure("ib_gid_attr", 48, &[("gid", raw, 128)]);
        base.structure("task_struct", 64, &[("pid", word, 256), ("tgid", word, 288)]);
        let tracked = base.structure("rdma_restrack_entry", 16, &[("valid", byte, 0), ("task", long, 64)]);
        base.structure(
            "ib_qp",
            72,
            &[
                ("device", long, 0),
                ("av_sgid_attr", long, 64),
                ("real_qp", long, 320),
                ("qp_num", word, 128),
                ("qp_type", word, 192),
                ("port", word, 256),
                ("res", tracked, 448),
            ],
        );
        let route = base.structure(
            "ib_global_route",
            40,
            &[("dgid", raw, 64), ("flow_label", word, 192), ("traffic_class", byte, 248)],
        );
        let path = base.structure("rdma_ah_attr", 48, &[("grh", route, 0)]);
        base.structure(
            "ib_qp_attr",
            120,
            &[
                ("qp_state", word, 0),
                ("path_mtu", word, 32),
                ("rq_psn", word, 64),
                ("sq_psn", word, 96),
                ("dest_qp_num", word, 128),
                ("ah_attr", path, 192),
                ("timeout", byte, 640),
                ("retry_cnt", byte, 648),
                ("rnr_retry", byte, 656),
            ],
        );
        base.structure("ib_event", 24, &[("device", long, 0), ("element", long, 64), ("event", word, 128)]);
        base.bytes()
    }

    pub(crate) fn layout() -> Layout {
        Layout::of(&Btf::parse(kernel(), None).unwrap()).unwrap()
    }

    /// A record of a call for queue pair `number` of `rxe0` in that kernel.
    pub(crate) fn record(kind: u8, number: u32, mask: u32, set: &dyn Fn(&mut [u8])) -> QpRecord {
        let mut record = QpRecord {
            time_ns: 1_000,
            duration_ns: 0,
            cgroup: 0,
            pid: 4_711,
            mask,
            result: 0,
            event: 0,
            kind,
            has_sgid: 0,
            qp_len: 72,
            attr_len: 120,
            pad: 0,
            comm: [0; COMM],
            device: [0; DEVICE_NAME],
            sgid: [0; 16],
            qp_bytes: [0; QP_BYTES],
            attr_bytes: [0; ATTR_BYTES],
        };
        record.comm[..5].copy_from_slice(b"train");
        record.device[..4].copy_from_slice(b"rxe0");
        record.qp_bytes[16..20].copy_from_slice(&number.to_ne_bytes());
        record.qp_bytes[24..28].copy_from_slice(&2u32.to_ne_bytes());
        set(&mut record.attr_bytes);
        record
    }

    #[test]
    fn attributes_are_read_where_the_kernel_has_them_and_the_mask_names_them() {
        let layout = layout();
        let peer: Ipv6Addr = "::ffff:10.0.0.2".parse().unwrap();
        let record = record(kind::MODIFIED, 17, mask::STATE | mask::AV | mask::PATH_MTU, &|attr| {
            attr[..4].copy_from_slice(&2u32.to_ne_bytes());
            attr[4..8].copy_from_slice(&3u32.to_ne_bytes());
            attr[16..20].copy_from_slice(&29u32.to_ne_bytes());
            attr[24 + 8..24 + 24].copy_from_slice(&peer.octets());
            attr[24 + 24..24 + 28].copy_from_slice(&593_445u32.to_ne_bytes());
            attr[24 + 31] = 106;
            attr[80] = 19;
        });
        assert_eq!(layout.qp_num(&record), Some(17));
        assert_eq!((layout.qp_type(&record), layout.port(&record)), (Some(2), None));
        let set = layout.attributes(&record, record.mask);
        assert_eq!((set.state, set.path_mtu, set.peer), (Some(2), Some(1024), "10.0.0.2".parse().ok()));
        assert_eq!((set.flow_label, set.traffic_class), (Some(593_445), Some(106)));
        assert_eq!((set.dest_qp, set.timeout), (None, None));
        let all = layout.attributes(&record, mask::ALL);
        assert_eq!((all.dest_qp, all.timeout), (Some(29), Some(19)));
    }

    #[test]
    fn the_process_that_made_a_queue_pair_is_behind_its_thread() {
        let with = layout();
        let of = with.programs;
        assert_eq!((of.qp_task, of.task_tgid), (64, 36));
        assert_eq!(with.absent(), [""; 0]);
        // Extracts of real kernels have no threads.
        let without = Layout::of(&kernels::btf(kernels::KERNELS[0], "ib_core")).unwrap();
        let of = without.programs;
        assert_eq!((of.qp_task, of.task_tgid), (ABSENT, ABSENT));
        assert_eq!(without.absent(), ["ib_qp.res.task", "task_struct.tgid"]);
    }

    #[test]
    fn a_kernel_without_a_needed_structure_names_it() {
        let mut base = Writer::base();
        base.int(4);
        let none = Btf::parse(base.bytes(), None).unwrap();
        assert_eq!(Layout::of(&none).unwrap_err(), "struct ib_qp");
    }

    /// Locks of a kernel built for debugging are longer.
    #[test]
    fn a_field_beyond_what_is_copied_is_none_that_the_kernel_has() {
        let of = |qp_num: u32, port: u32, timeout: u32| {
            let mut base = Writer::base();
            let (byte, word, long) = (base.int(1), base.int(4), base.int(8));
            let name = base.array(byte, 64);
            base.structure("ib_device", 128, &[("name", name, 64)]);
            let qp = [("device", long, 0), ("qp_num", word, 8 * qp_num), ("port", word, 8 * port)];
            base.structure("ib_qp", 1_000, &qp);
            base.structure("ib_qp_attr", 1_000, &[("qp_state", word, 0), ("timeout", byte, 8 * timeout)]);
            base.structure("ib_event", 24, &[("device", long, 0)]);
            Layout::of(&Btf::parse(base.bytes(), None).unwrap())
        };
        let [within, beyond] = [QP_BYTES - 4, QP_BYTES - 3].map(|at| u32::try_from(at).unwrap());
        let last = u32::try_from(ATTR_BYTES).unwrap() - 1;
        let lacks = |layout: &Layout, field: &str| layout.absent().contains(&field);
        let whole = of(16, within, last).unwrap();
        assert!(!lacks(&whole, "ib_qp.port") && !lacks(&whole, "ib_qp_attr.timeout"));
        let part = of(16, beyond, last + 1).unwrap();
        assert!(lacks(&part, "ib_qp.port") && lacks(&part, "ib_qp_attr.timeout"));
        let why = of(beyond, 16, last).unwrap_err();
        assert_eq!(why, "field qp_num in the first 384 bytes of struct ib_qp");
    }

    #[test]
    fn what_was_not_copied_is_unknown() {
        let layout = layout();
        let mut record = record(kind::CREATED, 17, 0, &|_| {});
        (record.qp_len, record.attr_len) = (0, 0);
        assert_eq!(layout.qp_num(&record), None);
        assert_eq!(layout.attributes(&record, mask::ALL), Attributes::default());
        record.attr_len = u16::MAX;
        assert_eq!(layout.attributes(&record, mask::ALL), Attributes::default());
    }
}

//! Firmware commands of mlx5 about queue pairs, as issued by processes without the verbs (DEVX).
//!
//! Source: Linux 6.12, include/linux/mlx5/mlx5_ifc.h: `mlx5_ifc_create_qp_in_bits`, `mlx5_ifc_rst2init_qp_in_bits`
//! and similar ones with the same offsets: opcode, user, number of the queue pair, and its context at byte 24;
//! `mlx5_ifc_create_qp_out_bits`; service types: include/linux/mlx5/qp.h. All integers are big-endian. Nothing here
//! has been compared with hardware.

use rocescope_common::abi::qp::{CommandRecord, command};

use super::qp_context::{self, MLX5_LEN, QpContext};
use super::{qp_reason, qp_types};
use crate::host::kernel::KernelVersion;
use crate::host::read::HostRoot;

/// Function of mlx5's core driver that executes all commands.
pub const FUNCTION: &str = "mlx5_cmd_do";
/// Linux has it since this version; distributions add drivers of newer kernels to theirs.
pub const FUNCTION_SINCE: KernelVersion = KernelVersion::new(5, 18, 0);
/// Its driver asks the firmware why a queue pair is in the error state since this version.
pub const REASONS_SINCE: KernelVersion = KernelVersion::new(6, 4, 0);

/// True if the loaded driver has the function that executes all commands; `None` if it is not loaded, or the kernel's
/// symbols cannot be read.
pub fn can_be_followed(root: &HostRoot) -> Option<bool> {
    use std::io::BufRead as _;
    if !root.exists(&format!("/sys/module/{}", qp_types::MLX5)) {
        return None;
    }
    // Some MiB, of which only the kernel decides.
    let file = std::fs::File::open(root.path("/proc/kallsyms")).ok()?;
    let mut symbols = std::io::BufReader::new(file).lines().map_while(Result::ok);
    // Address, type, name, module.
    Some(symbols.any(|line| line.split_whitespace().nth(2) == Some(FUNCTION)))
}

/// Offset of the 24-bit queue pair number, in input and output.
const QPN: usize = 9;
/// Offset of the firmware's error syndrome, in the output.
const SYNDROME: usize = 4;
/// Offset of the context, in the input.
const CONTEXT: usize = 24;
/// `st` of the context: service type, of 8 bits.
const SERVICE: usize = 1;
/// `vhca_port_num` of the context's primary path, of 8 bits.
const PORT: usize = 0x1e8 / 8;

/// A command about a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Opcode, a value of [`command`].
    pub opcode: u16,
    /// Number of the queue pair; `None`: none was created.
    pub lqpn: Option<u32>,
    /// Transport: `RC`, `UC`, `UD` …; `None`: not in this command, or unknown.
    pub kind: Option<&'static str>,
    /// Port of the device, from 1; `None`: not in this command.
    pub port: Option<u32>,
    /// Fields that the command sets; the others are `None`.
    pub set: QpContext,
    /// The firmware's error syndrome; 0 if there is none.
    pub syndrome: u32,
}

/// Decodes a recorded command. `None`: not about a queue pair, or not copied completely.
pub fn decode(record: &CommandRecord) -> Option<Command> {
    let valid = |bytes: &'_ [u8], len: u32| bytes.len().min(len as usize);
    let input = record.input.get(..valid(&record.input, record.input_len))?;
    let output = record.output.get(..valid(&record.output, record.output_len))?;
    let opcode = u16::from_be_bytes(*input.first_chunk()?);
    if !command::is_followed(opcode) {
        return None;
    }
    // The number of a new queue pair is in the output, which a failed command does not have.
    let numbered = if opcode == command::CREATE { output } else { input };
    let lqpn = number(numbered, QPN).filter(|_| opcode != command::CREATE || record.result == 0);
    let qpc = input.get(CONTEXT..CONTEXT + MLX5_LEN);
    let given = qpc.map(qp_context::of_mlx5).unwrap_or_default();
    let has_path = matches!(opcode, command::RST2INIT | command::INIT2RTR);
    Some(Command {
        opcode,
        lqpn,
        kind: qpc.filter(|_| opcode == command::CREATE).and_then(|qpc| service(*qpc.get(SERVICE)?)),
        port: qpc
            .filter(|_| has_path)
            .and_then(|qpc| qpc.get(PORT))
            .map(|port| u32::from(*port))
            .filter(|port| *port != 0),
        set: if opcode == command::RTS2RTS { set_anew(input, &given) } else { set_by(opcode, &given) },
        syndrome: output
            .get(SYNDROME..)
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |bytes| u32::from_be_bytes(*bytes)),
    })
}

/// `error_syndrome` of the context's extension (`mlx5_ifc_qp_context_extension_bits`).
const ERROR_SYNDROME: usize = 0x60 / 8;

/// Number of a queue pair and the reason of its error state, from the driver's query (`mlx5_ib_qp_err_syndrome`).
/// `None`: another command, or the firmware gave no reason.
pub fn reason(record: &CommandRecord) -> Option<(u32, String)> {
    let valid = |bytes: &'_ [u8], len: u32| bytes.len().min(len as usize);
    let input = record.input.get(..valid(&record.input, record.input_len))?;
    let output = record.output.get(..valid(&record.output, record.output_len))?;
    let is_query = u16::from_be_bytes(*input.first_chunk()?) == command::QUERY && record.result == 0;
    let word = u32::from_be_bytes(*output.get(ERROR_SYNDROME..)?.first_chunk()?);
    Some((number(input, QPN)?, qp_reason::mlx5(word).filter(|_| is_query)?))
}

/// What `RTS2RTS_QP` sets: the fields that are in its masks (`opt_param_mask` and `opt_param_mask_95_32`). Others than
/// these two are not known. rdma-core sends it for `mlx5dv_modify_qp_udp_sport` and `mlx5dv_modify_qp_lag_port`, also
/// of queue pairs of the verbs.
fn set_anew(input: &[u8], given: &QpContext) -> QpContext {
    /// `MLX5_QPC_OPT_MASK_RTS2RTS_LAG_TX_PORT_AFFINITY`, and `MLX5_QPC_OPT_MASK_32_UDP_SPORT` of the second mask
    /// (providers/mlx5/mlx5_ifc.h of rdma-core).
    const BOND_PORT: u32 = 1 << 15;
    const UDP_PORT: u32 = 1 << 2;
    let mask =
        |at: usize| input.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_be_bytes(*word));
    // The lower half of the second mask.
    let (first, second) = (mask(16), mask(CONTEXT + MLX5_LEN + 8 + 4));
    QpContext {
        udp_port: given.udp_port.filter(|_| second & UDP_PORT != 0),
        bond_port: given.bond_port.filter(|_| first & BOND_PORT != 0),
        ..QpContext::default()
    }
}

/// The fields that a command sets: the others are 0, which is not a value.
fn set_by(opcode: u16, given: &QpContext) -> QpContext {
    let state = Some(match opcode {
        command::RST2INIT => "INIT",
        command::INIT2RTR => "RTR",
        command::RTR2RTS => "RTS",
        command::TO_ERR => "ERR",
        _ => "RESET",
    });
    match opcode {
        command::INIT2RTR => QpContext {
            state,
            rqpn: given.rqpn.filter(|qpn| *qpn != 0),
            dst: given.dst,
            src_index: given.src_index,
            flow_label: given.flow_label,
            udp_port: given.udp_port,
            dscp: given.dscp,
            priority: given.priority,
            path_mtu: given.path_mtu,
            adaptive_routing: given.adaptive_routing,
            plane: given.plane,
            ..QpContext::default()
        },
        command::RTR2RTS => QpContext {
            state,
            timeout: given.timeout,
            retry_cnt: given.retry_cnt,
            rnr_retry: given.rnr_retry,
            ..QpContext::default()
        },
        _ => QpContext { state, bond_port: given.bond_port, ..QpContext::default() },
    }
}

/// `MLX5_QP_ST_*` of include/linux/mlx5/qp.h.
fn service(value: u8) -> Option<&'static str> {
    Some(match value {
        0 => "RC",
        1 => "UC",
        2 => "UD",
        3 => "XRC",
        5 => "DCI",
        6 => "DCT",
        _ => return None,
    })
}

/// A 24-bit number.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let [a, b, c] = *bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes([0, a, b, c]))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::Ipv6Addr;

    use rocescope_common::abi::qp::{COMM, COMMAND_INPUT, COMMAND_OUTPUT, DEVICE_NAME};

    use super::*;

    /// Writes `bits` bits at bit `at`, as `MLX5_SET` of include/linux/mlx5/device.h does.
    fn put(bytes: &mut [u8], at: usize, bits: usize, value: u32) {
        for bit in 0..bits {
            let (place, set) = (at + bits - 1 - bit, value >> bit & 1 == 1);
            if set {
                bytes[place / 8] |= 0x80 >> (place % 8);
            }
        }
    }

    /// A command of `opcode` for queue pair `lqpn` of the device `0000:17:00.0`.
    pub(crate) fn record(opcode: u16, lqpn: u32, fields: &[(usize, usize, u32)]) -> CommandRecord {
        let mut record = CommandRecord {
            time_ns: 1_000,
            cgroup: 0,
            pid: 4_711,
            result: 0,
            input_len: 272,
            output_len: 16,
            comm: [0; COMM],
            device: [0; DEVICE_NAME],
            input: [0; COMMAND_INPUT],
            output: [0; COMMAND_OUTPUT],
        };
        record.comm[..5].copy_from_slice(b"train");
        record.device[..12].copy_from_slice(b"0000:17:00.0");
        put(&mut record.input, 0, 16, opcode.into());
        put(&mut record.input, 16, 16, 7);
        if opcode == command::CREATE {
            put(&mut record.output, 0x48, 24, lqpn);
        } else {
            put(&mut record.input, 0x48, 24, lqpn);
        }
        for (at, bits, value) in fields {
            put(&mut record.input[CONTEXT..], *at, *bits, *value);
        }
        record
    }

    #[test]
    fn commands_set_what_their_transition_sets() {
        let made = decode(&record(command::CREATE, 0x1a2, &[(0x8, 8, 2)])).unwrap();
        assert_eq!((made.lqpn, made.kind, made.set.state), (Some(0x1a2), Some("UD"), Some("RESET")));
        let init = decode(&record(command::RST2INIT, 0x1a2, &[(0x1e8, 8, 2), (0x4, 4, 1)])).unwrap();
        assert_eq!((init.port, init.set.state, init.set.bond_port), (Some(2), Some("INIT"), Some(1)));

        let mut to_rtr = record(
            command::INIT2RTR,
            0x1a2,
            &[
                (0x40, 3, 5),
                (0xa8, 24, 0x2b3),
                (0xc1, 1, 1),
                (0xe0, 8, 2),
                (0x108, 8, 5),
                (0x12c, 20, 0x1_2345),
                (0x1ca, 6, 26),
                (0x1d0, 16, 0xc1ed),
                (0x1e1, 3, 3),
                (0x38d, 3, 7),
            ],
        );
        let peer: Ipv6Addr = "::ffff:10.0.0.2".parse().unwrap();
        to_rtr.input[CONTEXT + 0x28..CONTEXT + 0x38].copy_from_slice(&peer.octets());
        let rtr = decode(&to_rtr).unwrap();
        let set = &rtr.set;
        assert_eq!((rtr.lqpn, set.rqpn, set.dst), (Some(0x1a2), Some(0x2b3), "10.0.0.2".parse().ok()));
        assert_eq!((set.path_mtu, set.dscp, set.udp_port), (Some(4096), Some(26), Some(0xc1ed)));
        assert_eq!((set.src_index, set.priority, set.plane), (Some(5), Some(3), Some(2)));
        assert_eq!((set.adaptive_routing, set.bond_port), (Some(true), None));
        assert_eq!(set.flow_label, Some(0x1_2345));
        // Set only by the next command.
        assert_eq!((set.retry_cnt, set.timeout), (None, None));

        let rts = decode(&record(command::RTR2RTS, 0x1a2, &[(0x38d, 3, 6), (0x390, 3, 7), (0x100, 5, 20)]))
            .unwrap();
        assert_eq!((rts.set.retry_cnt, rts.set.rnr_retry, rts.set.timeout), (Some(6), Some(7), Some(20)));
        assert_eq!((rts.set.dst, rts.set.dscp), (None, None));
        assert_eq!(decode(&record(command::TO_ERR, 0x1a2, &[])).unwrap().set.state, Some("ERR"));
    }

    /// By `mlx5dv_modify_qp_udp_sport` of rdma-core: only what is in the masks is a value.
    #[test]
    fn a_port_set_anew_is_that_of_the_command() {
        let mut anew = record(command::RTS2RTS, 0x1a2, &[(0x1d0, 16, 50_001), (0x4, 4, 2), (0x1ca, 6, 26)]);
        let set = |record: &CommandRecord| decode(record).unwrap().set;
        assert_eq!(set(&anew), QpContext::default(), "no mask");
        anew.input[271] = 4;
        assert_eq!(set(&anew), QpContext { udp_port: Some(50_001), ..QpContext::default() });
        anew.input[18] = 0x80;
        assert_eq!((set(&anew).udp_port, set(&anew).bond_port), (Some(50_001), Some(2)));
        anew.input_len = 264;
        assert_eq!((set(&anew).udp_port, set(&anew).bond_port), (None, Some(2)), "cut short");
    }

    #[test]
    fn a_driver_without_the_function_is_known_by_its_symbols() {
        use crate::host::read::testing::tree;
        let loaded = ("sys/module/mlx5_core/refcnt", "1");
        let of = |files: &[(&str, &str)]| can_be_followed(&HostRoot::at(tree(files).path()));
        let symbols =
            "0000000000000000 t mlx5_cmd_do_it\t[mlx5_core]\n0000000000000000 T mlx5_cmd_exec\t[mlx5_core]";
        assert_eq!(of(&[loaded, ("proc/kallsyms", symbols)]), Some(false));
        let symbols = format!("{symbols}\n0000000000000000 T mlx5_cmd_do\t[mlx5_core]");
        assert_eq!(of(&[loaded, ("proc/kallsyms", &symbols)]), Some(true));
        assert_eq!((of(&[loaded]), of(&[("proc/kallsyms", &symbols)])), (None, None));
    }

    #[test]
    fn the_driver_s_query_for_a_reason_is_read() {
        let mut asked = record(command::QUERY, 0x1a2, &[]);
        assert_eq!(reason(&asked), None, "no syndrome");
        asked.output[12..16].copy_from_slice(&[0x12, 0x20, 0x81, 0x15]);
        let (lqpn, why) = reason(&asked).unwrap();
        assert_eq!(lqpn, 0x1a2);
        assert!(why.starts_with("transport retry count exceeded (syndrome 0x15, vendor error 0x81"), "{why}");
        assert_eq!(decode(&asked), None, "it sets nothing");
        for len in 0..16 {
            assert_eq!(reason(&CommandRecord { output_len: len, ..asked }), None, "{len}");
        }
        assert_eq!(reason(&CommandRecord { result: -5, ..asked }), None);
        let mut other = record(command::TO_ERR, 0x1a2, &[]);
        other.output = asked.output;
        assert_eq!(reason(&other), None);
    }

    #[test]
    fn what_was_refused_or_cut_short_is_not_read() {
        let mut refused = record(command::CREATE, 0x1a2, &[]);
        refused.result = -121;
        put(&mut refused.output, 32, 32, 0x005a_82ce);
        let command = decode(&refused).unwrap();
        assert_eq!((command.lqpn, command.syndrome), (None, 0x005a_82ce));
        let mut short = record(command::INIT2RTR, 0x1a2, &[(0xa8, 24, 5)]);
        short.input_len = 100;
        assert_eq!(decode(&short).unwrap().set, QpContext { state: Some("RTR"), ..QpContext::default() });
        for len in 0..12 {
            short.input_len = len;
            assert_eq!(decode(&short).and_then(|command| command.lqpn), None);
        }
        short.input_len = u32::MAX;
        short.output_len = u32::MAX;
        assert!(decode(&short).is_some());
        assert_eq!(decode(&record(0x100, 1, &[])), None);
    }
}

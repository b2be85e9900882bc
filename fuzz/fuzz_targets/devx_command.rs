//! Any bytes as a firmware command of mlx5 about a queue pair.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocescope::host::rdma::{mlx5_command, qp_reason};
use rocescope_common::abi::qp::{COMM, COMMAND_INPUT, COMMAND_OUTPUT, CommandRecord, DEVICE_NAME, command};
use rocescope_fuzz::seeds;

/// A command of each followed opcode with its response: three numbers, the output, then the input.
fn made() -> Vec<Vec<u8>> {
    let followed = (0..=u16::MAX).filter(|opcode| command::is_followed(*opcode));
    let of = |opcode: u16| {
        let numbers = [512u32, 16, 0].map(u32::to_le_bytes).concat();
        let mut bytes = [numbers, vec![1; COMMAND_OUTPUT + COMMAND_INPUT]].concat();
        bytes[12 + COMMAND_OUTPUT..][..2].copy_from_slice(&opcode.to_be_bytes());
        bytes
    };
    followed.map(of).collect()
}

fuzz_target!(init: seeds(made), |given: (u32, u32, i32, &[u8])| {
    let (input_len, output_len, result, bytes) = given;
    let mut record = CommandRecord {
        time_ns: 0,
        cgroup: 0,
        pid: 1,
        result,
        input_len,
        output_len,
        comm: [0; COMM],
        device: [0; DEVICE_NAME],
        input: [0; COMMAND_INPUT],
        output: [0; COMMAND_OUTPUT],
    };
    let (output, input) = bytes.split_at(bytes.len().min(COMMAND_OUTPUT));
    record.output[..output.len()].copy_from_slice(output);
    let len = input.len().min(COMMAND_INPUT);
    record.input[..len].copy_from_slice(&input[..len]);
    let opcode = u16::from_be_bytes([record.input[0], record.input[1]]);
    let decoded = mlx5_command::decode(&record);
    assert!(decoded.is_none() || command::is_followed(opcode) && input_len >= 2);
    if let Some(found) = &decoded {
        assert_eq!(found.opcode, opcode);
        assert!(found.lqpn.is_none_or(|qpn| qpn <= 0xff_ffff));
        assert!(found.port != Some(0));
    }
    let reason = mlx5_command::reason(&record);
    assert!(reason.is_none() || opcode == command::QUERY && result == 0);
    let [requester, responder] = [record.input[0], record.input[1]];
    assert_eq!(qp_reason::bnxt(requester, responder).is_none(), (requester, responder) == (0, 0));
});

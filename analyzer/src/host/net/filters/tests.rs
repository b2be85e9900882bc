use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

use super::*;
use crate::host::read::testing::{root_or_skip, tree, veth_pair};

const TCA_BPF_FD: u16 = 6;
const TCA_BPF_FLAGS: u16 = 8;
const DIRECT_ACTION: u32 = 1;

/// The start of union bpf_attr: type, instruction count, instructions, licence.
#[repr(C)]
struct Attr {
    kind: u32,
    count: u32,
    code: u64,
    licence: u64,
    rest: [u64; 12],
}

/// A classifier that passes everything on: `r0 = -1; exit`.
fn program() -> OwnedFd {
    const BPF_PROG_LOAD: libc::c_long = 5;
    const SCHED_CLS: u32 = 3;
    let code: [u64; 2] = [0xffff_ffff_0000_00b7, 0x95];
    let attr = Attr {
        kind: SCHED_CLS,
        count: 2,
        code: code.as_ptr() as u64,
        licence: c"GPL".as_ptr() as u64,
        rest: [0; 12],
    };
    // SAFETY: the structure and its pointers are valid during the call, and its length is correct.
    let fd =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attr, std::mem::size_of::<Attr>()) };
    assert!(fd >= 0, "load a program: {}", io::Error::last_os_error());
    // SAFETY: the system call has just returned this descriptor, which nothing else owns.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) }
}

fn add_clsact(index: u32) {
    let header = TcHeader { index, handle: CLSACT_HANDLE, parent: CLSACT, info: 0 };
    let request = Request::new(libc::RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, &header.bytes())
        .attr_text(libc::TCA_KIND, "clsact");
    RouteSocket::open().unwrap().request("add clsact", request).unwrap();
}

fn add_filter(index: u32, parent: u32, handle: u32, name: &str) {
    let program = program();
    let all_protocols = u32::from(0x0003u16.to_be());
    let header = TcHeader { index, handle, parent, info: 7 << 16 | all_protocols };
    let request = Request::new(libc::RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, &header.bytes())
        .attr_text(libc::TCA_KIND, "bpf")
        .nest(libc::TCA_OPTIONS, |r| {
            r.attr(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes())
                .attr_text(TCA_BPF_NAME, name)
                .attr_u32(TCA_BPF_FLAGS, DIRECT_ACTION)
        });
    RouteSocket::open().unwrap().request("add a filter", request).unwrap();
}

fn filter(name: Option<&str>, handle: u32) -> Filter {
    Filter {
        name: name.map(str::to_owned),
        ingress: true,
        handle,
        program_id: None,
        header: TcHeader::default(),
        kind: "bpf".to_owned(),
    }
}

#[test]
fn only_ours_without_a_running_owner_are_stale() {
    let comms =
        [("proc/10/comm", "rocescope\n"), ("proc/11/comm", "bash\n"), ("proc/12/comm", "rocescope-0.1.0\n")];
    let root = tree(&comms);
    let stale = |name, handle| filter(name, handle).is_stale(root.path());
    assert!(stale(Some("rocescope_tc_ingress"), 9));
    assert!(stale(Some("rocescope_tc_ingress"), 11));
    assert!(!stale(Some("rocescope_tc_ingress"), 10));
    assert!(!stale(Some("rocescope_tc_ingress"), 12), "started from a file with a longer name");
    assert!(!stale(Some("cil_from_netdev"), 9));
    assert!(!stale(None, 9));
}

#[test]
fn leftovers_go_and_everything_else_stays() {
    if !root_or_skip("leftovers_go_and_everything_else_stays") {
        return;
    }
    let pair = veth_pair(1500);
    let index = pair.left_index;
    // No process has this PID: it is above the kernel's limit of 2^22.
    let gone = 5_000_000;
    pair.left
        .run(|| {
            assert_eq!(list(index).unwrap(), []);
            assert_eq!(remove_stale_filters(index).unwrap(), 0);
            assert!(!remove_clsact_if_empty(index).unwrap());
            add_clsact(index);
            assert!(!are_all_ours(index).unwrap(), "an empty one may be anybody's");
            add_filter(index, CLSACT_INGRESS, gone, "rocescope_ingress");
            assert!(are_all_ours(index).unwrap());
            add_filter(index, CLSACT_EGRESS, gone, "rocescope_egress");
            add_filter(index, CLSACT_EGRESS, gone + 1, "somebody_else");
            assert!(!are_all_ours(index).unwrap());
            let filters = list(index).unwrap();
            assert_eq!(filters.len(), 3, "{filters:?}");
            assert_eq!(filters[0].name.as_deref(), Some("rocescope_ingress"));
            assert!(filters[0].ingress && !filters[1].ingress);
            assert!(filters[0].program_id.is_some());
            assert_eq!(filters[0].handle, gone);

            assert_eq!(remove_stale_filters(index).unwrap(), 2);
            let names: Vec<_> = list(index).unwrap().into_iter().filter_map(|f| f.name).collect();
            assert_eq!(names, ["somebody_else"]);
            assert!(!remove_clsact_if_empty(index).unwrap(), "it is in use");
            assert_eq!(remove_stale_filters(index).unwrap(), 0);
        })
        .unwrap();
}

#[test]
fn an_empty_clsact_can_be_taken_away() {
    if !root_or_skip("an_empty_clsact_can_be_taken_away") {
        return;
    }
    let pair = veth_pair(1500);
    let index = pair.right_index;
    pair.right
        .run(|| {
            add_clsact(index);
            assert!(remove_clsact_if_empty(index).unwrap());
            assert!(!remove_clsact_if_empty(index).unwrap());
            assert!(list(9999).unwrap_or_default().is_empty());
        })
        .unwrap();
}

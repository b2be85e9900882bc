use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, chmodat, fchmod, mkdirat, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, SendFlags, Shutdown, SocketFlags, SocketType, bind, connect, sendto, shutdown,
    socket_with, socketpair,
};
use rustix::process::{
    Resource, Rlimit, getpriority_process, getrlimit, getuid, prlimit, setpriority_process, setpriority_user,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::*;

#[test]
fn every_plan_makes_filters_that_the_kernel_can_take() {
    let all = Plan {
        netlink: true,
        bpf: true,
        sysfs: true,
        accept: true,
        tree: true,
        connect: vec![28_028],
        names: true,
        write: vec!["/".into()],
        ..Plan::parser()
    };
    for plan in [Plan::parser(), all] {
        for filter in chosen(&plan).unwrap() {
            assert!((2..4096).contains(&filter.len()), "{}", filter.len());
        }
    }
    assert!(!all_but_a_few().unwrap().is_empty());
}

#[test]
fn no_call_that_starts_a_program_is_among_those_allowed() {
    let allowed_elsewhere = |call: &&c_long| **call != libc::SYS_accept4 && !BPF.contains(call);
    for call in NEVER.iter().filter(allowed_elsewhere) {
        for list in [ALWAYS, OLDER, WRITES, TREES, SYSFS] {
            assert!(!list.contains(call), "{call}");
        }
    }
}

/// What a thread with this plan may do, without Landlock: it has the system calls alone.
fn under<T: Send>(plan: &Plan, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let limited = scope.spawn(|| {
            let mut state = State::default();
            limit(plan, &mut state);
            assert_eq!(state.missing, Vec::<String>::new());
            work()
        });
        limited.join().unwrap()
    })
}

fn writer(folder: &Path) -> Plan {
    Plan { tree: true, ..Plan::of_files(Vec::new(), vec![folder.to_owned()]) }
}

#[test]
fn no_file_is_made_that_starts_as_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let create = OFlags::CREATE | OFlags::WRONLY;
    under(&writer(folder.path()), || {
        for bits in [0o4755, 0o2755, 0o6777] {
            let mode = Mode::from_raw_mode(bits);
            assert_eq!(openat(CWD, at("a"), create, mode).err(), Some(Errno::PERM), "{bits:o}");
            assert_eq!(mkdirat(CWD, at("b"), mode), Err(Errno::PERM), "{bits:o}");
            let file = openat(CWD, at("c"), create, Mode::from_raw_mode(0o755)).unwrap();
            assert_eq!(fchmod(&file, mode), Err(Errno::PERM), "{bits:o}");
            fchmod(&file, Mode::from_raw_mode(0o644)).unwrap();
            assert!(chmodat(CWD, at("c"), mode, AtFlags::empty()).is_err(), "{bits:o}");
        }
        mkdirat(CWD, at("d"), Mode::from_raw_mode(0o755)).unwrap();
    });
    let file = std::fs::File::create(at("e")).unwrap();
    // Where nothing is written, no mode is changed either.
    let mode = Mode::from_raw_mode(0o600);
    assert_eq!(under(&Plan::parser(), || fchmod(&file, mode)), Err(Errno::PERM));
}

#[test]
fn a_call_whose_flags_cannot_be_seen_does_not_exist() {
    for plan in [Plan::parser(), writer(Path::new("/"))] {
        let opened = || openat2(CWD, "/dev/null", OFlags::RDONLY, Mode::empty(), ResolveFlags::empty()).err();
        assert_eq!(under(&plan, opened), Some(Errno::NOSYS));
    }
}

#[test]
fn a_socket_that_is_open_already_leads_nowhere() {
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = there.local_addr().unwrap();
    let netlink = Plan { netlink: true, bpf: true, accept: true, ..Plan::parser() };
    for plan in [Plan::parser(), netlink.clone()] {
        let here = TcpListener::bind("127.0.0.1:0").unwrap();
        under(&plan, || {
            // Listens no more.
            shutdown(&here, Shutdown::Read).unwrap();
            assert_eq!(connect(&here, &to), Err(Errno::PERM));
            let fast = SendFlags::from_bits_retain(libc::MSG_FASTOPEN.unsigned_abs());
            assert_eq!(sendto(&here, b"x", fast, &to), Err(Errno::PERM));
            let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None).map(drop);
            assert_eq!(pair(SocketType::DGRAM), Err(Errno::PERM));
            pair(SocketType::STREAM).unwrap();
        });
    }
    // Netlink's own sockets work.
    under(&netlink, || {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).unwrap();
        let kernel = SocketAddrNetlink::new(0, 0);
        bind(&socket, &kernel).unwrap();
        connect(&socket, &kernel).unwrap();
    });
    there.set_nonblocking(true).unwrap();
    assert!(there.accept().is_err(), "a connection was made");
}

#[test]
fn other_processes_keep_their_limits_and_priorities() {
    let (parent, own) = (rustix::process::getppid(), Some(rustix::process::getpid()));
    for plan in [Plan::parser(), writer(Path::new("/"))] {
        under(&plan, || {
            let none = Rlimit { current: None, maximum: None };
            assert_eq!(prlimit(parent, Resource::Core, none).err(), Some(Errno::PERM));
            assert_eq!(setpriority_process(parent, 5), Err(Errno::PERM));
            assert_eq!(setpriority_user(getuid(), 5), Err(Errno::PERM));
            setpriority_process(None, getpriority_process(None).unwrap()).unwrap();
            let limit = getrlimit(Resource::Core);
            prlimit(own, Resource::Core, limit).unwrap();
        });
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_is_refused_has_no_second_number() {
    // `setns`, as it is and with the bit of x32.
    const CALLS: &str = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor bit in (0, 1 << 30):\n  \
                         libc.syscall(308 | bit, -1, 0)\n  print(ctypes.get_errno())";
    let under_it = || {
        apply_filter(&no_x32()).unwrap();
        std::process::Command::new("python3").args(["-c", CALLS]).output().unwrap()
    };
    let output = std::thread::scope(|scope| scope.spawn(under_it).join().unwrap());
    let expected = format!("{}\n{}\n", libc::EBADF, libc::EPERM);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
}

#[test]
fn what_may_do_nearly_everything_cannot_do_the_rest() {
    let everything = Plan { all_rights: true, ..Plan::default() };
    under(&everything, || {
        let own = std::fs::File::open("/proc/self/ns/net").unwrap();
        let entered = move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Network));
        assert_eq!(entered, Err(Errno::PERM));
        let folder = tempfile::tempdir().unwrap();
        let mounted = mount("none", folder.path(), "tmpfs", MountFlags::empty(), None);
        assert_eq!(mounted, Err(Errno::PERM));
        let started = std::process::Command::new("true").status().unwrap_err();
        assert_eq!(started.kind(), std::io::ErrorKind::PermissionDenied);
        std::fs::write(folder.path().join("a"), "").unwrap();
    });
}

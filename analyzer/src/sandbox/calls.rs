//! seccomp: the system calls that the calling thread may make. Everything else fails with EPERM.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::{Plan, State};

/// Calls of every thread: memory, threads, time, files that Landlock and the user allow, descriptors that are open.
const ALWAYS: &[c_long] = &[
    libc::SYS_accept4,  // a descriptor that listens is needed, which nobody makes without bind
    libc::SYS_adjtimex, // read; to set it needs CAP_SYS_TIME
    libc::SYS_brk,
    libc::SYS_clock_adjtime, // the same
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone3, // answered with ENOSYS, see `by_others`
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_get_robust_list,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpriority,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_getpeername,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2, // answered with ENOSYS, see `by_others`
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_prlimit64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readahead,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_setpriority,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_socketpair,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_tee,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Older names of the same, which x86-64 alone has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Calls that open files, the argument that holds their flags, and the one that holds the mode of a new file.
const OPENS: &[(c_long, u8, u8)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];

/// Calls that give a file or a folder a mode, and the argument that holds it.
const MODES: &[(c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_mkdirat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
];

/// Set user and set group: a file of root with these makes root of whoever starts it.
const SET_USER: i64 = 0o6000;

/// Calls that send, and the argument that holds their flags.
const SENDS: &[(c_long, u8)] = &[(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];

/// Calls that change folders and files.
const WRITES: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    libc::SYS_renameat,
];

/// Calls that make and remove folders, and give a file a second name: the queue of a recording.
const TREES: &[c_long] = &[
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// Limits of a thread that is started later, which only add to these: of what writes, the threads that parse do not.
const NARROWER: &[c_long] =
    &[libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self];

/// Mounting a sysfs that is attached nowhere.
const SYSFS: &[c_long] = &[libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount];

/// Programs, maps and probes of the kernel.
const BPF: &[c_long] = &[libc::SYS_bpf, libc::SYS_perf_event_open];

/// Its number, which the bindings for musl lack on aarch64.
#[cfg(not(target_arch = "aarch64"))]
const KEXEC_FILE_LOAD: c_long = libc::SYS_kexec_file_load;
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: c_long = 294;

/// Calls that commands which read everything of a host must not make either.
const NEVER: &[c_long] = &[
    // Programs and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_userfaultfd,
    // The kernel.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_reboot,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_syslog,
    libc::SYS_io_uring_setup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    // Connections from outside.
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Keys.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Mounts, roots and namespaces. A sysfs that is attached nowhere can be made, see `SYSFS`.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    // Settings of the host.
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];

/// Bits of the type of a socket; flags are beside them.
const SOCKET_TYPE: u64 = 0xf;

/// Types into a terminal as its user would: commands for the shell that is there afterwards.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541C];

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;
type Result<T> = std::result::Result<T, BackendError>;

/// Limits the thread, or says what keeps it from that.
pub(super) fn limit(plan: &Plan, state: &mut State) {
    let filters = if plan.all_rights { all_but_a_few() } else { chosen(plan) };
    let done = filters.map_err(|error| error.to_string()).and_then(|filters| {
        filters.iter().try_for_each(|filter| apply_filter(filter).map_err(|error| error.to_string()))
    });
    match done {
        Ok(()) => state.holds.push("system calls limited (seccomp)".to_owned()),
        Err(error) => {
            state.missing.push(format!("system calls are not limited: seccomp is refused ({error})"));
        }
    }
}

fn program(rules: Rules, otherwise: SeccompAction, of_rules: SeccompAction) -> Result<BpfProgram> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, otherwise, of_rules, machine)?.try_into()
}

fn refused(errno: i32) -> SeccompAction {
    SeccompAction::Errno(errno.unsigned_abs())
}

fn all_but_a_few() -> Result<Vec<BpfProgram>> {
    let rules = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    let listed = program(rules, SeccompAction::Allow, refused(libc::EPERM))?;
    Ok(if cfg!(target_arch = "x86_64") { vec![no_x32(), listed] } else { vec![listed] })
}

/// Refuses the second numbers that x86-64 has for most calls, those of x32: a list of what is refused has the first.
fn no_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step =
        |code: u32, jt, jf, k| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k };
    vec![
        // The number of the call is the first word.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn chosen(plan: &Plan) -> Result<Vec<BpfProgram>> {
    let mut rules: Rules = ALWAYS.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let mut open = |calls: &[c_long]| rules.extend(calls.iter().map(|call| (*call, Vec::new())));
    if !plan.write.is_empty() {
        open(WRITES);
        open(NARROWER);
    }
    if plan.tree {
        open(TREES);
    }
    if plan.sysfs {
        open(SYSFS);
    }
    if plan.bpf {
        open(BPF);
    }
    if !plan.connect.is_empty() {
        // To the ports that Landlock allows.
        open(&[libc::SYS_connect]);
    }
    if !plan.accept {
        rules.remove(&libc::SYS_accept4);
    }
    let sockets = sockets(plan)?;
    if !sockets.is_empty() {
        rules.insert(libc::SYS_socket, sockets);
    }
    limit_files(plan, &mut rules)?;
    if plan.netlink {
        // The family is in memory, but of those that the process may have a socket of, this length is netlink's alone:
        // one that listens, and was disconnected, connects to no address of this length.
        let length = std::mem::size_of::<libc::sockaddr_nl>() as u64;
        for call in [libc::SYS_bind, libc::SYS_connect] {
            let of_netlink = any_of(2, [length])?;
            rules.entry(call).or_insert(of_netlink);
        }
    }
    // With it, a TCP socket connects without connect(2).
    for (call, argument) in SENDS {
        rules.insert(*call, vec![masked(*argument, number(i64::from(libc::MSG_FASTOPEN)), false)?]);
    }
    // No datagrams, which could be sent to the socket of any service on this host.
    let stream = condition(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), number(i64::from(libc::SOCK_STREAM)))?;
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![stream])?]);
    let own = number(i64::from(std::process::id()));
    rules.insert(libc::SYS_tgkill, any_of(0, [own])?);
    // 0 is the process group, which Ctrl-Z stops.
    rules.insert(libc::SYS_kill, any_of(0, [own, 0])?);
    // 0 is the caller.
    rules.insert(libc::SYS_prlimit64, any_of(0, [own, 0])?);
    let of_process = condition(0, SeccompCmpOp::Eq, number(i64::from(libc::PRIO_PROCESS)))?;
    let of_own = |who| SeccompRule::new(vec![of_process.clone(), condition(1, SeccompCmpOp::Eq, who)?]);
    rules.insert(libc::SYS_setpriority, [own, 0].into_iter().map(of_own).collect::<Result<_>>()?);
    let mut settings = vec![number(i64::from(libc::PR_SET_NAME)), 0x5356_4d41];
    if !plan.write.is_empty() {
        settings.push(number(i64::from(libc::PR_SET_NO_NEW_PRIVS)));
        let filter = condition(0, SeccompCmpOp::Eq, u64::from(libc::SECCOMP_SET_MODE_FILTER))?;
        // Of the calling thread alone, and answered by the kernel alone.
        let no_flags = condition(1, SeccompCmpOp::Eq, 0)?;
        rules.insert(libc::SYS_seccomp, vec![SeccompRule::new(vec![filter, no_flags])?]);
    }
    rules.insert(libc::SYS_prctl, any_of(0, settings)?);
    // A thread, no process.
    rules.insert(libc::SYS_clone, vec![masked(0, number(i64::from(libc::CLONE_THREAD)), true)?]);
    // Nothing that is written becomes code.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![masked(2, number(i64::from(libc::PROT_EXEC)), false)?]);
    }
    let no_input = TERMINAL_INPUT.iter().map(|request| condition(1, SeccompCmpOp::Ne, *request));
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(no_input.collect::<Result<_>>()?)?]);
    Ok(vec![by_others()?, program(rules, refused(libc::EPERM), SeccompAction::Allow)?])
}

/// How files are opened, and which modes they get.
fn limit_files(plan: &Plan, rules: &mut Rules) -> Result<()> {
    if plan.write.is_empty() {
        // The filter refuses opening for writing, too, where Landlock is missing, or would hide too much.
        let writing =
            number(i64::from(libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND));
        for (call, flags, _) in OPENS {
            rules.insert(*call, vec![masked(*flags, writing, false)?]);
        }
        return Ok(());
    }
    let modes =
        OPENS.iter().map(|(call, _, mode)| (call, mode)).chain(MODES.iter().map(|(call, mode)| (call, mode)));
    for (call, mode) in modes {
        if rules.contains_key(call) {
            rules.insert(*call, vec![masked(*mode, number(SET_USER), false)?]);
        }
    }
    Ok(())
}

/// The sockets that a thread may make: netlink; TCP; and datagrams, whose ports no rule of Landlock limits, only where
/// names of hosts are looked up.
fn sockets(plan: &Plan) -> Result<Vec<SeccompRule>> {
    let family = |family: i32| condition(0, SeccompCmpOp::Eq, number(i64::from(family)));
    let mut rules = Vec::new();
    if plan.netlink {
        rules.push(SeccompRule::new(vec![family(libc::AF_NETLINK)?])?);
    }
    let types = [(!plan.connect.is_empty(), libc::SOCK_STREAM), (plan.names, libc::SOCK_DGRAM)];
    for (_, kind) in types.into_iter().filter(|(is_wanted, _)| *is_wanted) {
        for of in [libc::AF_INET, libc::AF_INET6] {
            let is_kind = condition(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), number(i64::from(kind)))?;
            rules.push(SeccompRule::new(vec![family(of)?, is_kind])?);
        }
    }
    Ok(rules)
}

/// The flags of clone3 and openat2 are in memory, which a filter cannot read. Without them, libraries use clone and
/// openat.
fn by_others() -> Result<BpfProgram> {
    let rules = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new())).into();
    program(rules, SeccompAction::Allow, refused(libc::ENOSYS))
}

fn number(value: i64) -> u64 {
    value.cast_unsigned()
}

fn condition(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

fn any_of(argument: u8, values: impl IntoIterator<Item = u64>) -> Result<Vec<SeccompRule>> {
    let rule = |value| SeccompRule::new(vec![condition(argument, SeccompCmpOp::Eq, value)?]);
    values.into_iter().map(rule).collect()
}

/// True when all bits of `mask` are set, or when none is.
fn masked(argument: u8, mask: u64, set: bool) -> Result<SeccompRule> {
    let value = if set { mask } else { 0 };
    SeccompRule::new(vec![condition(argument, SeccompCmpOp::MaskedEq(mask), value)?])
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;

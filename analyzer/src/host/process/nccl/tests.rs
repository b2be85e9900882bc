use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::host::read::testing::tree;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn found(folder: &Path, libraries: bool) -> Vec<NcclProcess> {
    processes(&HostRoot::at(folder), libraries, &mut UnreadReasons::new()).found
}

#[test]
fn only_processes_with_nccl_settings_are_listed() {
    let cgroup = format!("0::/kubepods/pod11111111-2222-3333-4444-555555555555/{ID}\n");
    let tree = tree(&[
        ("proc/17/environ", "PATH=/bin\0NCCL_IB_HCA=mlx5\0NCCL_DEBUG=\0"),
        ("proc/17/comm", "python3\n"),
        ("proc/17/cgroup", &cgroup),
        ("proc/17/root/etc/hostname", "trainer-0\n"),
        ("proc/18/environ", "NCCLX=1\0HOME=/\0"),
        ("proc/19/environ/folder", "no file"),
        ("proc/19/comm", "sshd\n"),
        ("proc/19/cmdline", "sshd: x"),
        // Without a command line: a kernel thread.
        ("proc/20/environ/folder", "no file"),
        ("proc/20/comm", "kworker/0:1\n"),
        ("proc/20/cmdline", ""),
        ("proc/meminfo", ""),
    ]);
    let root = HostRoot::at(tree.path());
    let mut unread = UnreadReasons::new();
    let result = processes(&root, true, &mut unread);
    assert_eq!(result.found.len(), 1);
    assert_eq!(result.unreadable, [Unreadable { pid: 19, comm: Some("sshd".into()) }]);
    let found = &result.found[0];
    assert_eq!((found.pid, found.label().as_str()), (17, "python3 17"));
    assert_eq!(found.environment["NCCL_IB_HCA"], "mlx5");
    assert_eq!(found.container.as_ref().unwrap().label().as_deref(), Some("trainer-0"));
    // The tree contains neither its namespace nor that of this process.
    let what: Vec<_> = unread.into_reasons().into_iter().map(|r| (r.subject, r.what)).collect();
    let expected = [("host", "follow /proc/self/ns/net"), ("process 17", "follow /proc/17/ns/net")];
    assert_eq!(what, expected.map(|(subject, what)| (subject.to_owned(), what.to_owned())));
    assert_eq!(found.same_network, None);
}

#[test]
fn a_process_without_settings_is_known_by_its_library() {
    let tree = tree(&[
        ("proc/5/environ", "PATH=/bin\0"),
        ("proc/5/maps", "7f00-7f01 r-xp 0 08:01 1 /usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5\n"),
        ("proc/6/environ", "PATH=/bin\0"),
        ("proc/6/maps", "7f00-7f01 r-xp 0 08:01 1 /opt/rocm/lib/librccl.so.1.0\n"),
        // The name of a plugin, and one with the same ending.
        ("proc/7/environ", "PATH=/bin\0"),
        ("proc/7/maps", "a r 0 0 0 /usr/lib/libnccl-net.so\nb r 0 0 0 /usr/lib/notlibnccl.so\n"),
        ("etc/nccl.conf", "NCCL_IB_TC=1\n"),
        ("proc/5/root/etc/nccl.conf", "NCCL_IB_TC=106\n"),
        ("proc/6/root/etc/nccl.conf", "NCCL_IB_TC=106\n"),
        ("proc/6/root/etc/rccl.conf", "NCCL_IB_TC=104\n"),
    ]);
    let of: Vec<_> = found(tree.path(), true)
        .into_iter()
        .map(|p| (p.pid, p.library, p.number("NCCL_IB_TC"), p.file_of("NCCL_IB_TC")))
        .collect();
    let conf = |stem: &str| Some(format!("/etc/{stem}.conf"));
    assert_eq!(
        of,
        [
            (5, Some(Library::Nccl), Some(106), conf("nccl")),
            (6, Some(Library::Rccl), Some(104), conf("rccl"))
        ]
    );
    assert!(found(tree.path(), false).is_empty(), "not looked for");
}

/// A process in a container, whose user is 1000 here and 0 in its user namespace.
fn contained(environ: &str) -> tempfile::TempDir {
    let tree = tree(&[
        ("proc/9/environ", environ),
        ("proc/9/status", "Name:\tx\nUid:\t1000\t0\t0\t0\n"),
        ("proc/9/uid_map", "0 1000 1\n1 100000 65536\n"),
        ("proc/9/root/etc/passwd", "sync:x:4:65534:sync:/bin:/bin/sync\nroot:x:0:0:root:/root:/bin/sh\n"),
        (
            "proc/9/root/root/.nccl.conf",
            "# NCCL_IB_HCA=no\n NCCL_IB_SL=9\nNCCL_IB_TC=0x68\nNCCL_IB_TC=1\nOTHER=x\nnonsense\nNCCL_SOCKET_IFNAME==eth1\n",
        ),
        ("proc/9/root/etc/nccl.conf", "NCCL_IB_TC=7\nNCCL_IB_HCA=mlx5_1\nNCCL_DEBUG=INFO"),
        ("proc/9/root/job/my.conf", "NCCL_IB_TC=3\n"),
        // The files of this host must not be used.
        ("root/.nccl.conf", "NCCL_IB_TC=99\n"),
        ("etc/nccl.conf", "NCCL_IB_GID_INDEX=9\n"),
        ("home/ann/.nccl.conf", "NCCL_IB_TC=98\n"),
    ]);
    for (process, namespace) in [("self", "mnt:[1]"), ("9", "mnt:[2]")] {
        std::fs::create_dir_all(tree.path().join(format!("proc/{process}/ns"))).unwrap();
        symlink(namespace, tree.path().join(format!("proc/{process}/ns/mnt"))).unwrap();
    }
    symlink("/job", tree.path().join("proc/9/cwd")).unwrap();
    tree
}

#[test]
fn the_environment_goes_before_the_users_file_and_that_before_the_hosts() {
    let tree = contained("HOME=/home/ann\0NCCL_DEBUG=\0NCCL_IB_QPS_PER_CONNECTION=4\0");
    let [process] = &found(tree.path(), false)[..] else { panic!("one process") };
    assert_eq!(process.shown("NCCL_IB_TC"), "NCCL_IB_TC=0x68 (from /root/.nccl.conf inside its container)");
    assert_eq!(process.number("NCCL_IB_TC"), Some(104));
    assert_eq!(process.get("NCCL_SOCKET_IFNAME"), Some("=eth1"));
    assert_eq!(process.shown("NCCL_IB_HCA"), "NCCL_IB_HCA=mlx5_1 (from /etc/nccl.conf inside its container)");
    assert_eq!(process.unset("NCCL_IB_HCA"), "take NCCL_IB_HCA out of /etc/nccl.conf inside its container");
    assert_eq!(process.shown("NCCL_IB_QPS_PER_CONNECTION"), "NCCL_IB_QPS_PER_CONNECTION=4");
    // A variable with an empty value is set, so files are ignored; a space makes another name.
    assert_eq!(process.shown("NCCL_DEBUG"), "NCCL_DEBUG unset");
    assert_eq!(process.get("NCCL_IB_SL"), None);
    assert_eq!(process.get("NCCL_IB_GID_INDEX"), None);
    let names: Vec<_> = process.settings().collect();
    assert_eq!(
        names,
        ["NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_TC", "NCCL_SOCKET_IFNAME"]
    );
}

#[test]
fn a_file_named_by_the_environment_stands_for_that_of_the_user() {
    for (name, file) in
        [("/job/my.conf", "/job/my.conf"), ("my.conf", "my.conf"), ("../job/./my.conf", "../job/./my.conf")]
    {
        let tree = contained(&format!("NCCL_CONF_FILE={name}\0"));
        let [process] = &found(tree.path(), false)[..] else { panic!("one process") };
        assert_eq!(process.number("NCCL_IB_TC"), Some(3), "{name}");
        assert_eq!(process.configured["NCCL_IB_TC"].file, file);
        assert_eq!(process.get("NCCL_IB_HCA"), Some("mlx5_1"), "that of the host is read besides");
    }
    // Without an entry in the password file, `HOME` is used.
    let tree = contained("HOME=/home/bob\0NCCL_X=1\0");
    std::fs::write(tree.path().join("proc/9/root/etc/passwd"), "").unwrap();
    std::fs::create_dir_all(tree.path().join("proc/9/root/home/bob")).unwrap();
    std::fs::write(tree.path().join("proc/9/root/home/bob/.nccl.conf"), "NCCL_IB_TC=5").unwrap();
    assert_eq!(found(tree.path(), false)[0].number("NCCL_IB_TC"), Some(5));
}

#[test]
fn links_lead_where_they_lead_the_process_and_never_out_of_its_root() {
    let tree = contained("NCCL_X=1\0");
    let conf = tree.path().join("proc/9/root/root/.nccl.conf");
    for (target, expected) in [
        ("/job/my.conf", Some(3)),
        ("../job/my.conf", Some(3)),
        ("../../../../../job/my.conf", Some(3)),
        // A link loop, and a file that exists only on this host: the container's own /etc applies.
        ("/root/.nccl.conf", Some(7)),
        ("/home/ann/.nccl.conf", Some(7)),
    ] {
        std::fs::remove_file(&conf).unwrap();
        symlink(target, &conf).unwrap();
        assert_eq!(found(tree.path(), false)[0].number("NCCL_IB_TC"), expected, "{target}");
    }
    // A pipe in place of the file is not opened.
    std::fs::remove_file(&conf).unwrap();
    crate::host::read::testing::fifo(&conf);
    let mut unread = UnreadReasons::new();
    let all = processes(&HostRoot::at(tree.path()), false, &mut unread);
    assert_eq!(all.found[0].number("NCCL_IB_TC"), Some(7));
    assert!(
        unread
            .into_reasons()
            .iter()
            .any(|r| r.what.ends_with(".nccl.conf") && r.why.contains("not a regular file"))
    );
}

#[test]
fn numbers_are_read_as_nccl_does() {
    for (text, number) in [
        ("106", Some(106)),
        ("0x6A", Some(106)),
        ("0152", Some(106)),
        ("-1", Some(-1)),
        ("+7x", Some(7)),
        ("0x", Some(0)),
        ("08", Some(0)),
        ("x", Some(0)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9223372036854775808", None),
        ("99999999999999999999999999999999999999999999", None),
    ] {
        assert_eq!(strtoll(text), number, "{text}");
    }
}

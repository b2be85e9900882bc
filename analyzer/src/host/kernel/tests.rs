use super::*;
use crate::host::read::testing::tree;

/// Capabilities of a root shell on a recent kernel.
const ROOT: u64 = 0x0000_01ff_ffff_ffff;

fn facts(release: &str, capabilities: u64, btf: bool) -> KernelFacts {
    KernelFacts {
        release: Some(release.to_owned()),
        version: KernelVersion::parse(release),
        btf,
        capabilities: Some(Capabilities(capabilities)),
        initial_user_namespace: Some(true),
        unprivileged_bpf_disabled: Some(2),
        jit: None,
    }
}

fn refusal(facts: &KernelFacts, needs: PrivilegeNeeds) -> String {
    preflight(facts, needs).unwrap_err().to_string()
}

#[test]
fn releases_of_distributions_are_read() {
    for (release, expected) in [
        ("5.15.0-91-generic", Some((5, 15, 0))),
        ("6.18.44-fc-v657", Some((6, 18, 44))),
        ("6.18-rc3", Some((6, 18, 0))),
        ("4.18.0-553.el8_10.x86_64", Some((4, 18, 0))),
        ("6.1.0+", Some((6, 1, 0))),
        ("6.1.", Some((6, 1, 0))),
        ("6", None),
        ("6.", None),
        ("", None),
        ("linux", None),
        ("99999999.1", None),
    ] {
        let expected = expected.map(|(a, b, c)| KernelVersion::new(a, b, c));
        assert_eq!(KernelVersion::parse(release), expected, "{release:?}");
    }
    assert!(KernelVersion::new(5, 15, 9) < KernelVersion::new(6, 6, 0));
    assert_eq!(KernelVersion::new(6, 6, 0).to_string(), "6.6");
    assert_eq!(KernelVersion::new(6, 6, 3).to_string(), "6.6.3");
}

#[test]
fn facts_come_from_the_files_and_absence_stays_unknown() {
    let root = tree(&[
        ("proc/sys/kernel/osrelease", "5.15.0-91-generic\n"),
        ("proc/sys/kernel/unprivileged_bpf_disabled", "2\n"),
        ("proc/sys/net/core/bpf_jit_enable", "1\n"),
        ("proc/self/status", "Name:\tx\nCapPrm:\t0\nCapEff:\t0000008000001000\n"),
        ("sys/kernel/btf/vmlinux", ""),
    ]);
    let facts = KernelFacts::read(root.path());
    assert_eq!(facts.version, Some(KernelVersion::new(5, 15, 0)));
    assert_eq!((facts.btf, facts.unprivileged_bpf_disabled, facts.jit), (true, Some(2), Some(true)));
    let capabilities = facts.capabilities.unwrap();
    assert!(capabilities.has(Capability::Bpf) && capabilities.has(Capability::NetAdmin));
    assert!(!capabilities.has(Capability::Perfmon) && !capabilities.has(Capability::SysAdmin));

    let nothing = KernelFacts::read(tree(&[]).path());
    assert_eq!((nothing.release, nothing.version, nothing.capabilities), (None, None, None));
    assert_eq!((nothing.btf, nothing.jit), (false, None));
}

#[test]
fn sys_admin_stands_for_the_newer_capabilities() {
    let admin = Capabilities(1 << 21);
    assert!(admin.has(Capability::Bpf) && admin.has(Capability::Perfmon));
    assert!(!admin.has(Capability::NetAdmin) && !admin.has(Capability::NetRaw));
}

#[test]
fn capabilities_of_another_user_namespace_do_not_suffice() {
    assert!(maps_every_user("         0          0 4294967295\n"));
    assert!(!maps_every_user("         0       1000          1\n"));
    let inside = KernelFacts { initial_user_namespace: Some(false), ..facts("6.8.0", ROOT, true) };
    assert!(refusal(&inside, PrivilegeNeeds::default()).contains("is in a user namespace"));
}

#[test]
fn preflight_says_what_is_missing_and_what_to_do() {
    let needs = PrivilegeNeeds { netns: true };
    assert!(preflight(&facts("6.8.0", ROOT, true), needs).is_ok());

    let text = refusal(&facts("6.8.0", 0, true), needs);
    for word in ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON", "CAP_SYS_ADMIN", "sudo"] {
        assert!(text.contains(word), "{text}");
    }
    let some = (1 << 39) | (1 << 38) | (1 << 12);
    assert!(preflight(&facts("6.8.0", some, true), PrivilegeNeeds::default()).is_ok());
    let text = refusal(&facts("6.8.0", some, true), PrivilegeNeeds { netns: true });
    assert!(text.contains("CAP_SYS_ADMIN") && !text.contains("CAP_BPF"), "{text}");
}

#[test]
fn old_kernels_and_those_without_types_are_refused() {
    let text = refusal(&facts("5.14.21-150500", ROOT, true), PrivilegeNeeds::default());
    assert!(text.contains("5.14.21-150500") && text.contains("5.15"), "{text}");
    assert!(preflight(&facts("5.15.0", ROOT, true), PrivilegeNeeds::default()).is_ok());
    let text = refusal(&facts("6.8.0", ROOT, false), PrivilegeNeeds::default());
    assert!(text.contains("CONFIG_DEBUG_INFO_BTF"), "{text}");
    let unknown = KernelFacts { release: None, version: None, capabilities: None, ..facts("6.8.0", 0, true) };
    assert!(preflight(&unknown, PrivilegeNeeds::default()).is_ok());
}

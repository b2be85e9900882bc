use super::*;
use crate::host::net::interface::{AttachedXdp, XdpAttachment};
use crate::host::read::testing::interface;

const NEW: Option<KernelVersion> = Some(KernelVersion::new(6, 12, 0));
const OLD: Option<KernelVersion> = Some(KernelVersion::new(5, 15, 0));
const NATIVE: Ingress = Ingress::Xdp { mode: XdpMode::Native, frags: false };
const NATIVE_FRAGS: Ingress = Ingress::Xdp { mode: XdpMode::Native, frags: true };
const GENERIC: Ingress = Ingress::Xdp { mode: XdpMode::Generic, frags: false };

fn auto(interface: &Interface, kernel: Option<KernelVersion>) -> Plan {
    plan(HookChoice::Auto, XdpModeChoice::Auto, interface, kernel)
}

fn xdp(mode: XdpModeChoice, interface: &Interface, kernel: Option<KernelVersion>) -> Plan {
    plan(HookChoice::Xdp, mode, interface, kernel)
}

fn nic(driver: &str, mtu: u32) -> Interface {
    Interface { driver: Some(driver.to_owned()), mtu, ..interface("eth0", 2, InterfaceKind::Physical) }
}

#[test]
fn auto_is_tc_on_every_interface() {
    for kind in [
        InterfaceKind::Physical,
        InterfaceKind::Bond,
        InterfaceKind::Bridge,
        InterfaceKind::Vlan,
        InterfaceKind::Netkit,
        InterfaceKind::Other(String::new()),
        InterfaceKind::Veth,
        InterfaceKind::Tun,
    ] {
        let plan = auto(&interface("x", 1, kind.clone()), NEW);
        assert_eq!(plan.ingress, Ingress::Tc, "{kind:?}");
        assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    }
}

#[test]
fn xdp_says_once_what_it_changes_unless_nobody_else_is_there() {
    for (kind, mode, effect) in [
        (InterfaceKind::Veth, XdpModeChoice::Auto, "segmentation offload at its peer"),
        (InterfaceKind::Veth, XdpModeChoice::Native, "MTU from being raised"),
        (InterfaceKind::Physical, XdpModeChoice::Auto, "reset its queues"),
        (InterfaceKind::Tun, XdpModeChoice::Auto, "reset its queues"),
        (InterfaceKind::Physical, XdpModeChoice::Generic, "hardware GRO"),
        (InterfaceKind::Bridge, XdpModeChoice::Auto, "hardware GRO"),
    ] {
        let interface = interface("x0", 1, kind);
        let plan_of = |hook| plan(hook, mode, &interface, NEW);
        let [note] = &plan_of(HookChoice::Xdp).notes[..] else { panic!("one notice") };
        for part in [effect, "x0", "--hook tc"] {
            assert!(note.contains(part), "{part} in {note}");
        }
        let private = plan_of(HookChoice::Private);
        assert!(private.ingress != Ingress::Tc && private.notes.is_empty(), "{private:?}");
    }
}

#[test]
fn raw_ip_is_for_tc() {
    let tun = Interface { framing: Framing::RawIp, ..interface("tun0", 1, InterfaceKind::Tun) };
    assert_eq!(auto(&tun, NEW).ingress, Ingress::Tc);
    let asked = xdp(XdpModeChoice::Auto, &tun, NEW);
    assert_eq!(asked.ingress, Ingress::Tc);
    assert!(asked.notes[0].contains("tun0 begin with IP"), "{:?}", asked.notes);
}

#[test]
fn tcx_needs_its_kernel() {
    let eth0 = nic("mlx5_core", 1500);
    assert!(auto(&eth0, NEW).tcx && auto(&eth0, Some(TCX_SINCE)).tcx);
    assert!(!auto(&eth0, OLD).tcx && !auto(&eth0, None).tcx);
}

#[test]
fn a_foreign_xdp_program_is_never_replaced() {
    let mut veth = interface("veth0", 3, InterfaceKind::Veth);
    veth.xdp = Some(AttachedXdp { mode: XdpAttachment::Native, program_id: Some(12) });
    for hook in [HookChoice::Private, HookChoice::Xdp] {
        for mode in [XdpModeChoice::Auto, XdpModeChoice::Native, XdpModeChoice::Generic] {
            let plan = plan(hook, mode, &veth, NEW);
            assert_eq!(plan.ingress, Ingress::Tc);
            assert!(plan.fallback.is_empty());
            assert!(plan.notes[0].contains("veth0 has another XDP program (id 12)"), "{:?}", plan.notes);
            assert!(plan.notes[0].contains("using TC ingress instead"), "{:?}", plan.notes);
        }
    }
    let plan = plan(HookChoice::Tc, XdpModeChoice::Auto, &veth, NEW);
    assert_eq!(plan.notes.len(), 1);
    assert!(plan.notes[0].contains("not counted"), "{:?}", plan.notes);
}

#[test]
fn xdp_on_a_nic_warns_and_can_fall_back() {
    let mut plan = xdp(XdpModeChoice::Auto, &nic("mlx5_core", 1500), NEW);
    assert_eq!(plan.ingress, NATIVE);
    assert!(plan.notes[0].contains("reset its queues"), "{:?}", plan.notes);
    assert_eq!(plan.refused("eth0", "not supported"), Some(GENERIC));
    assert!(plan.notes[1].contains("native XDP on eth0 failed (not supported)"), "{:?}", plan.notes);
    assert_eq!(plan.refused("eth0", "again"), Some(Ingress::Tc));
    assert_eq!(plan.refused("eth0", "again"), None);
    assert_eq!(plan.ingress, Ingress::Tc);
}

#[test]
fn a_demanded_mode_has_no_other_xdp_to_fall_back_on() {
    let eth0 = nic("ena", 1500);
    assert_eq!(xdp(XdpModeChoice::Native, &eth0, NEW).fallback, [Ingress::Tc]);
    let generic = xdp(XdpModeChoice::Generic, &eth0, NEW);
    assert_eq!((generic.ingress, generic.fallback), (GENERIC, vec![Ingress::Tc]));
    let bridge = xdp(XdpModeChoice::Auto, &interface("br0", 4, InterfaceKind::Bridge), NEW);
    assert_eq!(bridge.ingress, GENERIC);
    let netkit = xdp(XdpModeChoice::Auto, &interface("nk0", 4, InterfaceKind::Netkit), NEW);
    assert_eq!(netkit.ingress, Ingress::Tc);
    assert!(netkit.notes[0].contains("netkit"));
}

#[test]
fn jumbo_frames_need_fragments_and_those_a_kernel() {
    let v = |major, minor| Some(KernelVersion::new(major, minor, 0));
    for (driver, kernel, ingress) in [
        ("mlx5_core", v(6, 4), NATIVE_FRAGS),
        ("mlx5_core", v(6, 3), Ingress::Tc),
        ("bnxt_en", v(5, 19), NATIVE_FRAGS),
        ("virtio_net", v(6, 2), Ingress::Tc),
        ("other", v(5, 18), NATIVE_FRAGS),
        ("other", v(5, 17), Ingress::Tc),
        ("other", None, Ingress::Tc),
    ] {
        let plan = xdp(XdpModeChoice::Auto, &nic(driver, 9000), kernel);
        assert_eq!(plan.ingress, ingress, "{driver} {kernel:?}");
        if ingress == Ingress::Tc {
            assert!(plan.notes[0].contains("MTU of 9000"), "{:?}", plan.notes);
            assert!(plan.notes[0].contains("using TC ingress instead"), "{:?}", plan.notes);
        }
    }
    let veth = |mtu| Interface { mtu, ..interface("veth0", 3, InterfaceKind::Veth) };
    let on_veth = |mtu, kernel| xdp(XdpModeChoice::Auto, &veth(mtu), kernel).ingress;
    assert_eq!(on_veth(ONE_BUFFER_MTU, OLD), NATIVE);
    assert_eq!(on_veth(ONE_BUFFER_MTU + 1, OLD), Ingress::Tc);
    assert_eq!(on_veth(ONE_BUFFER_MTU + 1, NEW), NATIVE_FRAGS);
    assert_eq!(xdp(XdpModeChoice::Generic, &veth(9000), OLD).ingress, GENERIC);
}

#[test]
fn a_mode_without_xdp_is_reported_to_do_nothing() {
    let plan = plan(HookChoice::Tc, XdpModeChoice::Native, &nic("ena", 1500), NEW);
    assert_eq!(plan.ingress, Ingress::Tc);
    assert!(plan.notes[0].contains("--xdp-mode has no effect"), "{:?}", plan.notes);
}

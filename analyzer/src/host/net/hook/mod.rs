//! Selection of the attach hooks of an interface: a pure function, with explanatory notices.
//!
//! Egress is always TC; only ingress has a choice.

use clap::ValueEnum;

use super::interface::{Framing, Interface, InterfaceKind};
use crate::host::kernel::KernelVersion;

/// Value of the user's `--hook`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum HookChoice {
    /// TC, which changes nothing about the interface.
    #[default]
    Auto,
    /// XDP on ingress.
    Xdp,
    /// TC on ingress.
    Tc,
    /// XDP on interfaces without other traffic, as in the demonstration: no notices of side effects.
    #[value(skip)]
    Private,
}

/// Value of the user's `--xdp-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum XdpModeChoice {
    /// Native if the driver supports it, else generic.
    #[default]
    Auto,
    /// In the driver; if it refuses, falls back to TC with a notice.
    Native,
    /// After the driver, on any interface.
    Generic,
}

/// Attach mode of an XDP program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver (native mode).
    Native,
    /// After the driver.
    Generic,
}

/// Hook for received packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingress {
    /// XDP; with `frags` the program must be loaded with support for multi-buffer frames.
    Xdp {
        /// Mode of the XDP program.
        mode: XdpMode,
        /// True if frames may span several buffers.
        frags: bool,
    },
    /// TC: through TCX if planned, else a clsact filter.
    Tc,
}

impl Ingress {
    /// The name for the user.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Xdp { mode: XdpMode::Native, .. } => "native XDP",
            Self::Xdp { mode: XdpMode::Generic, .. } => "generic XDP",
            Self::Tc => "TC ingress",
        }
    }
}

/// The hooks to attach on one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The ingress hook to attach.
    pub ingress: Ingress,
    /// Fallbacks, in order, if the kernel or driver refuses.
    pub fallback: Vec<Ingress>,
    /// True if TC programs attach through TCX (kernel 6.6) rather than as clsact filters.
    pub tcx: bool,
    /// Notices for the user.
    pub notes: Vec<String>,
}

impl Plan {
    /// Replaces an ingress hook that the kernel refused for `reason` by the next one, adds a notice and returns the
    /// new hook; `None` if no fallback is left.
    pub fn refused(&mut self, interface: &str, reason: &str) -> Option<Ingress> {
        if self.fallback.is_empty() {
            return None;
        }
        let next = self.fallback.remove(0);
        self.notes.push(format!(
            "{} on {interface} failed ({reason}): using {} instead",
            self.ingress.as_str(),
            next.as_str()
        ));
        self.ingress = next;
        Some(next)
    }
}

/// First kernel whose TC programs attach as links (TCX).
pub const TCX_SINCE: KernelVersion = KernelVersion::new(6, 6, 0);
/// First kernel with XDP programs for multi-buffer frames.
pub const FRAGS_SINCE: KernelVersion = KernelVersion::new(5, 18, 0);
/// The largest MTU that every driver with native XDP accepts in one 4 KiB buffer: of the common ones mlx5 has the
/// least space. A driver with even less refuses, and the fallback is used.
pub const ONE_BUFFER_MTU: u32 = 3498;

/// Plans the hooks of one interface. `kernel` is `None` if its version could not be read; the interface should
/// include its driver ([`super::interface::list_with_hardware`]).
pub fn plan(
    hook: HookChoice,
    mode: XdpModeChoice,
    interface: &Interface,
    kernel: Option<KernelVersion>,
) -> Plan {
    let mut notes = Vec::new();
    let (ingress, fallback) = decide(hook, mode, interface, kernel, &mut notes);
    let since = |wanted| kernel.is_some_and(|kernel| kernel >= wanted);
    if ingress == Ingress::Tc
        && let Some(xdp) = interface.xdp
    {
        notes.push(format!(
            "packets that the XDP program{} on {} drops or redirects do not reach TC and are \
             not counted",
            program(xdp.program_id),
            interface.name
        ));
    }
    Plan { ingress, fallback, tcx: since(TCX_SINCE), notes }
}

#[expect(clippy::too_many_lines, reason = "one case after the other, each with its notice")]
fn decide(
    hook: HookChoice,
    mode: XdpModeChoice,
    interface: &Interface,
    kernel: Option<KernelVersion>,
    notes: &mut Vec<String>,
) -> (Ingress, Vec<Ingress>) {
    let name = &interface.name;
    let tc = (Ingress::Tc, Vec::new());
    let wants_xdp = match hook {
        HookChoice::Auto | HookChoice::Tc => false,
        HookChoice::Xdp | HookChoice::Private => true,
    };
    if !wants_xdp {
        if mode != XdpModeChoice::Auto {
            notes.push(format!("--xdp-mode has no effect on {name}, which uses TC ingress"));
        }
        return tc;
    }
    if let Some(xdp) = interface.xdp {
        notes.push(format!(
            "{name} has another XDP program{} ({}), which is kept: using TC ingress instead",
            program(xdp.program_id),
            xdp.mode.as_str()
        ));
        return tc;
    }
    if interface.framing == Framing::RawIp {
        notes.push(format!("packets of {name} begin with IP, not Ethernet: using TC ingress instead of XDP"));
        return tc;
    }
    if interface.kind == InterfaceKind::Netkit {
        notes.push(format!("{name} is a netkit device without XDP support: using TC ingress instead"));
        return tc;
    }
    let native = match mode {
        XdpModeChoice::Native => true,
        XdpModeChoice::Generic => false,
        XdpModeChoice::Auto => has_native(&interface.kind),
    };
    let generic = Ingress::Xdp { mode: XdpMode::Generic, frags: false };
    let mut side_effects = |effects: String| {
        if hook == HookChoice::Xdp {
            notes.push(format!("while attached, {effects}; --hook tc does none of this"));
        }
    };
    if !native {
        side_effects(format!(
            "generic XDP turns off LRO and hardware GRO of {name}, and packets with little headroom are copied"
        ));
        return (generic, vec![Ingress::Tc]);
    }
    let frags = interface.mtu > ONE_BUFFER_MTU;
    let needed = frags_since(interface);
    if frags && kernel.is_none_or(|kernel| kernel < needed) {
        let kernel = kernel.map_or_else(|| "this kernel".to_owned(), |k| format!("kernel {k}"));
        notes.push(format!(
            "{name} has an MTU of {}, and native XDP supports an MTU above {ONE_BUFFER_MTU} only from \
             kernel {needed} (this is {kernel}): using TC ingress instead",
            interface.mtu
        ));
        return tc;
    }
    side_effects(match interface.kind {
        InterfaceKind::Veth => format!(
            "native XDP on {name} turns off segmentation offload at its peer, which slows TCP to less than half, and \
             keeps the peer's MTU from being raised"
        ),
        _ => format!(
            "native XDP may turn off LRO and limit the MTU of {name}, and attaching and detaching may reset its \
             queues and briefly interrupt traffic"
        ),
    });
    let fallback = match mode {
        XdpModeChoice::Auto => vec![generic, Ingress::Tc],
        _ => vec![Ingress::Tc],
    };
    (Ingress::Xdp { mode: XdpMode::Native, frags }, fallback)
}

fn program(id: Option<u32>) -> String {
    id.map_or_else(String::new, |id| format!(" (id {id})"))
}

/// Kinds whose drivers support native XDP; on NICs it is tried.
fn has_native(kind: &InterfaceKind) -> bool {
    matches!(kind, InterfaceKind::Physical | InterfaceKind::Bond | InterfaceKind::Veth | InterfaceKind::Tun)
}

/// First kernel in which this driver supports multi-buffer frames.
fn frags_since(interface: &Interface) -> KernelVersion {
    match interface.driver.as_deref() {
        // mlx5 supports it since 5.18, but only without striding receive queues, which are the default.
        Some("mlx5_core" | "i40e") => KernelVersion::new(6, 4, 0),
        Some("bnxt_en") => KernelVersion::new(5, 19, 0),
        Some("virtio_net" | "ice") => KernelVersion::new(6, 3, 0),
        _ => FRAGS_SINCE,
    }
}

#[cfg(test)]
mod tests;

//! GPUs: the nearest NICs, the PCIe links, and GPUDirect RDMA.

use super::{CheckList, Entry, Status};
use crate::doctor::facts::{DeviceFacts, HostFacts};
use crate::host::kernel::KernelVersion;
use crate::host::pci::{Distance, Gpu, PciDevice};

pub(super) const ENTRIES: &[Entry] = entries! {
    "gpu.nic": "The nearest RoCE NIC of each GPU: below the same PCIe switch, in the same NUMA node, or farther away. Warning when the nearest NIC is in another NUMA node.",
    "gpu.link": "Active and maximum PCIe lanes of each GPU. Warning when lanes are missing. Link speed is not checked: idle GPUs lower it.",
    "gpudirect.memory": "GPUDirect RDMA support: nvidia_peermem, dma-buf of NVIDIA's open kernel modules, or amdgpu (dma-buf needs Linux 5.12). Warning when none is available.",
    "gpudirect.iommu": "IOMMU address translation (type DMA) for NICs and GPUs. Warning when enabled: peer-to-peer traffic is routed through the IOMMU, or fails.",
    "gpudirect.acs": "PCIe bridges between a GPU and a NIC below the same switch that redirect peer-to-peer requests (ACS). Warning when there are any: peer-to-peer traffic is routed through the root complex.",
};

/// The first kernel that lets RDMA devices use dma-buf.
const DMA_BUF: KernelVersion = KernelVersion::new(5, 12, 0);

pub(super) fn check(facts: &HostFacts, checks: &mut CheckList) {
    let nics: Vec<(&DeviceFacts, &PciDevice)> = facts
        .devices
        .iter()
        .filter(|device| device.is_hardware_roce())
        .filter_map(|device| Some((device, device.pci.as_ref()?)))
        .collect();
    for gpu in &facts.gpus {
        let subject = subject(gpu);
        link(gpu, &subject, checks);
        let (distance, near) = nearest(gpu, &nics);
        let name = near.join(", ");
        match distance {
            None => {}
            Some(distance @ (Distance::Switch | Distance::Node)) => {
                let place = if distance == Distance::Switch { "below the same PCIe switch" } else { "in the same NUMA node" };
                checks.ok("gpu.nic", &subject, format!("{name}, {place}"));
            }
            Some(Distance::Far) => checks.say(
                ("gpu.nic", Status::Warning),
                &subject,
                format!("{name}, in another NUMA node"),
                "traffic between them crosses the inter-socket link",
                "use a NIC slot near the GPU, or bind the process to a GPU near the NIC (NCCL_IB_HCA, CUDA_VISIBLE_DEVICES)",
            ),
            Some(Distance::Unknown) => {
                checks.unknown("gpu.nic", &subject, "the kernel reports no NUMA node for the GPU or the NICs");
            }
        }
    }
    // GPUDirect RDMA needs both.
    if nics.is_empty() || facts.gpus.is_empty() {
        return;
    }
    memory(facts, checks);
    iommu(facts, &nics, checks);
    acs(facts, &nics, checks);
}

/// The nearest NICs. Of those below the same switch, the ones that share most bridges with the GPU:
/// larger hosts have cascaded switches.
fn nearest<'a>(gpu: &Gpu, nics: &[(&'a DeviceFacts, &PciDevice)]) -> (Option<Distance>, Vec<&'a str>) {
    let far = |pci: &PciDevice| {
        let shared = pci.bridges.iter().filter(|bridge| gpu.pci.bridges.contains(bridge)).count();
        (gpu.pci.distance(pci), std::cmp::Reverse(shared))
    };
    let Some(least) = nics.iter().map(|(_, pci)| far(pci)).min() else { return (None, Vec::new()) };
    let near = nics.iter().filter(|(_, pci)| far(pci) == least);
    (Some(least.0), near.map(|(device, _)| device.name.as_str()).collect())
}

fn subject(gpu: &Gpu) -> String {
    format!("{} GPU {}", gpu.vendor, gpu.pci.address)
}

fn link(gpu: &Gpu, subject: &str, checks: &mut CheckList) {
    match (gpu.pci.link.width, gpu.pci.link.max_width) {
        (Some(width), Some(max)) if width < max => checks.say(
            ("gpu.link", Status::Warning),
            subject,
            format!("{width} of {max} lanes"),
            "some lanes did not train, or the slot has fewer lanes",
            "reseat the card or check the slot (lspci -vv: compare LnkSta with LnkCap)",
        ),
        (Some(width), Some(_)) => {
            let speed = gpu.pci.link.speed.map_or_else(String::new, |speed| format!(" at {speed} GT/s"));
            checks.ok("gpu.link", subject, format!("{width} lanes{speed}"));
        }
        _ => checks.unknown("gpu.link", subject, "the PCIe link width cannot be read"),
    }
}

fn memory(facts: &HostFacts, checks: &mut CheckList) {
    const ID: &str = "gpudirect.memory";
    let direct = &facts.gpudirect;
    let new_enough = facts.kernel.version.is_some_and(|version| version >= DMA_BUF);
    for vendor in ["NVIDIA", "AMD"] {
        if !facts.gpus.iter().any(|gpu| gpu.vendor == vendor) {
            continue;
        }
        let way = match vendor {
            "NVIDIA" if direct.peermem => Some("nvidia_peermem"),
            "NVIDIA" if direct.nvidia_open == Some(true) && new_enough => Some("dma-buf"),
            "AMD" if direct.amdgpu && new_enough => Some("dma-buf"),
            _ => None,
        };
        match way {
            Some(way) => checks.ok(ID, "host", format!("{vendor}: {way}")),
            None => checks.say(
                (ID, Status::Warning),
                "host",
                format!("{vendor}: none"),
                "no GPUDirect RDMA: all data is copied through host memory",
                if vendor == "NVIDIA" {
                    "modprobe nvidia_peermem, or install the open kernel modules (dma-buf, Linux 5.12 or newer)"
                } else {
                    "modprobe amdgpu on Linux 5.12 or newer"
                },
            ),
        }
    }
}

fn iommu(facts: &HostFacts, nics: &[(&DeviceFacts, &PciDevice)], checks: &mut CheckList) {
    const ID: &str = "gpudirect.iommu";
    let nics = nics.iter().map(|(device, pci)| (device.name.clone(), *pci));
    let gpus = facts.gpus.iter().map(|gpu| (subject(gpu), &gpu.pci));
    let translated: Vec<String> = nics
        .chain(gpus)
        .filter(|(_, pci)| pci.iommu.as_deref().is_some_and(|kind| kind.starts_with("DMA")))
        .map(|(name, _)| name)
        .collect();
    if translated.is_empty() {
        checks.ok(ID, "host", "disabled or passthrough");
    } else {
        checks.say(
            (ID, Status::Warning),
            "host",
            format!("translates addresses of {}", translated.join(", ")),
            "peer-to-peer traffic between NIC and GPU is routed through the IOMMU: it is slower, or fails",
            "boot with iommu=pt (on Intel also intel_iommu=on; intel_iommu=off where no virtual machine needs it)",
        );
    }
}

fn acs(facts: &HostFacts, nics: &[(&DeviceFacts, &PciDevice)], checks: &mut CheckList) {
    const ID: &str = "gpudirect.acs";
    for (device, pci) in nics {
        let near = || facts.gpus.iter().filter(|gpu| gpu.pci.distance(pci) == Distance::Switch);
        if near().next().is_none() {
            continue;
        }
        // Peer-to-peer requests turn around at the lowest common bridge: redirection at or above it, as at
        // root ports with the IOMMU on, does not affect them.
        let between = |bridge: &&String| near().any(|gpu| !gpu.pci.bridges.contains(bridge));
        let redirecting = device.acs_redirect.as_ref();
        let redirecting =
            redirecting.map(|bridges| bridges.iter().filter(between).cloned().collect::<Vec<_>>());
        match redirecting.as_deref() {
            Some([]) => checks.ok(ID, &device.name, "no redirection"),
            Some(bridges) => checks.say(
                (ID, Status::Warning),
                &device.name,
                format!("redirected at {}", bridges.join(", ")),
                "peer-to-peer traffic between this NIC and its GPU is routed through the root complex",
                format!("disable ACS in the firmware settings, or: setpci -s {} ECAP_ACS+0x6.w=0000 (until the next boot; not on hosts with virtual machines)", bridges.first().map_or("", String::as_str)),
            ),
            None => checks.unknown(ID, &device.name, "reading the PCI configuration space requires root"),
        }
    }
}

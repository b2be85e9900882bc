//! GPUs: which NIC is near which, their links, and whether NICs can reach their memory.

use super::{Entry, Sheet, Verdict};
use crate::doctor::facts::{DeviceFacts, HostFacts};
use crate::host::kernel::KernelVersion;
use crate::host::pci::{Distance, Gpu, PciDevice};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "gpu.nic",
        about: "The nearest RoCE NIC of each GPU: below the same PCIe bridge, in the same NUMA node, or farther. A warning when the nearest is in another NUMA node.",
    },
    Entry {
        id: "gpu.link",
        about: "PCIe lanes of each GPU in use against those it has. A warning when some are missing. Speed is not judged: idle GPUs lower it.",
    },
    Entry {
        id: "gpudirect.memory",
        about: "Whether NICs can reach GPU memory: nvidia_peermem, dma-buf of NVIDIA's open modules, or amdgpu, from Linux 5.12 on. A warning when none is there.",
    },
    Entry {
        id: "gpudirect.iommu",
        about: "Whether the IOMMU translates addresses of a NIC or GPU (type DMA). A warning when it does: direct traffic between them goes through it, or fails.",
    },
    Entry {
        id: "gpudirect.acs",
        about: "Bridges between a GPU and a NIC below the same switch that redirect requests (ACS). A warning when there are any: direct traffic takes the way through the processor.",
    },
];

/// The first kernel that lets RDMA devices use dma-buf.
const DMA_BUF: KernelVersion = KernelVersion::new(5, 12, 0);

pub(super) fn check(facts: &HostFacts, sheet: &mut Sheet) {
    let nics: Vec<(&DeviceFacts, &PciDevice)> = facts
        .devices
        .iter()
        .filter(|device| device.is_hardware_roce())
        .filter_map(|device| Some((device, device.pci.as_ref()?)))
        .collect();
    for gpu in &facts.gpus {
        let subject = subject(gpu);
        link(gpu, &subject, sheet);
        let (distance, near) = nearest(gpu, &nics);
        let name = near.join(", ");
        match distance {
            None => {}
            Some(distance @ (Distance::Switch | Distance::Node)) => {
                let place = if distance == Distance::Switch { "below the same PCIe bridge" } else { "in the same NUMA node" };
                sheet.ok("gpu.nic", &subject, format!("{name}, {place}"));
            }
            Some(Distance::Far) => sheet.say(
                ("gpu.nic", Verdict::Warning),
                &subject,
                format!("{name}, in another NUMA node"),
                "traffic between them crosses the link between processors",
                "use a NIC slot near the GPU, or bind the process to the GPU that is near the NIC (NCCL_IB_HCA, CUDA_VISIBLE_DEVICES)",
            ),
            Some(Distance::Unknown) => {
                sheet.unknown("gpu.nic", &subject, "the kernel tells no NUMA node of the GPU or the NICs");
            }
        }
    }
    // Without both there is nothing to reach.
    if nics.is_empty() || facts.gpus.is_empty() {
        return;
    }
    memory(facts, sheet);
    iommu(facts, &nics, sheet);
    acs(facts, &nics, sheet);
}

/// The NICs that are as near as any: of those below the same switch the ones that share most bridges
/// with it, as larger hosts have switches below switches.
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

fn link(gpu: &Gpu, subject: &str, sheet: &mut Sheet) {
    match (gpu.pci.link.width, gpu.pci.link.max_width) {
        (Some(width), Some(max)) if width < max => sheet.say(
            ("gpu.link", Verdict::Warning),
            subject,
            format!("{width} of {max} lanes"),
            "lanes did not come up, or the slot has fewer",
            "reseat the card or check the slot (lspci -vv: LnkSta against LnkCap)",
        ),
        (Some(width), Some(_)) => {
            let speed = gpu.pci.link.speed.map_or_else(String::new, |speed| format!(" at {speed} GT/s"));
            sheet.ok("gpu.link", subject, format!("{width} lanes{speed}"));
        }
        _ => sheet.unknown("gpu.link", subject, "the width of the link cannot be read"),
    }
}

fn memory(facts: &HostFacts, sheet: &mut Sheet) {
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
            Some(way) => sheet.ok(ID, "host", format!("{vendor}: {way}")),
            None => sheet.say(
                (ID, Verdict::Warning),
                "host",
                format!("{vendor}: none"),
                "NICs cannot reach GPU memory: every byte goes through the memory of the host",
                if vendor == "NVIDIA" {
                    "modprobe nvidia_peermem, or install the open kernel modules (dma-buf, Linux 5.12 on)"
                } else {
                    "modprobe amdgpu on Linux 5.12 or newer"
                },
            ),
        }
    }
}

fn iommu(facts: &HostFacts, nics: &[(&DeviceFacts, &PciDevice)], sheet: &mut Sheet) {
    const ID: &str = "gpudirect.iommu";
    let nics = nics.iter().map(|(device, pci)| (device.name.clone(), *pci));
    let gpus = facts.gpus.iter().map(|gpu| (subject(gpu), &gpu.pci));
    let translated: Vec<String> = nics
        .chain(gpus)
        .filter(|(_, pci)| pci.iommu.as_deref().is_some_and(|kind| kind.starts_with("DMA")))
        .map(|(name, _)| name)
        .collect();
    if translated.is_empty() {
        sheet.ok(ID, "host", "off or passed through");
    } else {
        sheet.say(
            (ID, Verdict::Warning),
            "host",
            format!("translating for {}", translated.join(", ")),
            "direct traffic between NIC and GPU goes up to the IOMMU, slower, or does not work at all",
            "boot with iommu=pt (Intel also intel_iommu=on, or off where no virtual machine needs it)",
        );
    }
}

fn acs(facts: &HostFacts, nics: &[(&DeviceFacts, &PciDevice)], sheet: &mut Sheet) {
    const ID: &str = "gpudirect.acs";
    for (device, pci) in nics {
        let near = || facts.gpus.iter().filter(|gpu| gpu.pci.distance(pci) == Distance::Switch);
        if near().next().is_none() {
            continue;
        }
        // A request turns round at the bridge that both hang below: what redirects there or above it, as
        // root ports do wherever the IOMMU is on, is not on its way.
        let between = |bridge: &&String| near().any(|gpu| !gpu.pci.bridges.contains(bridge));
        let redirecting = device.acs_redirect.as_ref();
        let redirecting =
            redirecting.map(|bridges| bridges.iter().filter(between).cloned().collect::<Vec<_>>());
        match redirecting.as_deref() {
            Some([]) => sheet.ok(ID, &device.name, "no redirection"),
            Some(bridges) => sheet.say(
                (ID, Verdict::Warning),
                &device.name,
                format!("redirected at {}", bridges.join(", ")),
                "direct traffic between this NIC and the GPU beside it goes up to the processor and back",
                format!("turn ACS off in the firmware's settings, or: setpci -s {} ECAP_ACS+0x6.w=0000 (until the next boot; not under virtual machines)", bridges.first().map_or("", String::as_str)),
            ),
            None => sheet.unknown(ID, &device.name, "configuration space is for root to read"),
        }
    }
}

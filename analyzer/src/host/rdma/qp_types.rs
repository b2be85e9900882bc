//! BTF types of the running kernel for queue pairs: available and missing facts.

use serde::Serialize;

use super::qp_layout::Layout;
use crate::host::kernel::btf::{Btf, Malformed};
use crate::host::read::HostRoot;

/// Folder of the kernel's types, with a file for each module.
const FOLDER: &str = "/sys/kernel/btf";
/// The module whose structures are those of queue pairs.
const IB_CORE: &str = "ib_core";
/// mlx5's core driver, which executes all firmware commands.
pub const MLX5: &str = "mlx5_core";
/// bnxt_re, whose handler receives the reason of a queue pair's error state.
pub const BNXT: &str = "bnxt_re";

/// The kernel's types, or the reason why there are none.
///
/// # Errors
/// If the kernel has none, or they are invalid.
pub fn read(root: &HostRoot, module: &str) -> Result<Btf, String> {
    // Kernel files of several MiB, which no other user controls.
    let file = |name: &str| std::fs::read(root.path(&format!("{FOLDER}/{name}")));
    let base =
        file("vmlinux").map_err(|error| format!("the kernel has no BTF (CONFIG_DEBUG_INFO_BTF): {error}"))?;
    // A built-in module has no file of its own.
    Btf::parse(base, file(module).ok())
        .map_err(|Malformed| "cannot read the kernel's BTF: invalid BTF".to_owned())
}

/// The layout of queue pairs.
///
/// # Errors
/// The reason why none can be followed.
pub fn layout(root: &HostRoot) -> Result<Layout, String> {
    Layout::of(&read(root, IB_CORE)?).map_err(|missing| format!("the kernel's BTF has no {missing}"))
}

/// Offsets to the name of the device that mlx5's driver sends a command to. Unit: bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandOffsets {
    /// Offset of `mlx5_core_dev.device`, bytes.
    pub device: u32,
    /// Offset of `device.kobj.name`, bytes.
    pub name: u32,
}

impl CommandOffsets {
    /// Reads them from the running kernel.
    ///
    /// # Errors
    /// The reason why commands cannot be followed.
    pub fn read(root: &HostRoot) -> Result<Self, String> {
        Self::of(&of_module(root, MLX5)?)
    }

    fn of(btf: &Btf) -> Result<Self, String> {
        Ok(Self {
            device: offset(btf, "mlx5_core_dev", "device")?,
            name: offset(btf, "device", "kobj.name")?,
        })
    }
}

/// Offset from bnxt_re's internal queue pair, which its handler receives, to the one of the verbs; may be negative.
/// Unit: bytes.
///
/// # Errors
/// The reason why it is unknown.
pub fn bnxt_offset(root: &HostRoot) -> Result<u32, String> {
    bnxt_offset_of(&of_module(root, BNXT)?)
}

fn bnxt_offset_of(btf: &Btf) -> Result<u32, String> {
    let of = |path| offset(btf, "bnxt_re_qp", path);
    Ok(of("ib_qp")?.wrapping_sub(of("qplib_qp")?))
}

/// Types of a module, only if it is loaded, since reading the kernel's types takes time.
fn of_module(root: &HostRoot, module: &str) -> Result<Btf, String> {
    if !root.exists(&format!("/sys/module/{module}")) {
        return Err(format!("the module {module} is not loaded"));
    }
    read(root, module)
}

fn offset(btf: &Btf, name: &str, path: &str) -> Result<u32, String> {
    let field = btf.find(name).and_then(|found| found.field(path));
    field.map(|field| field.offset).ok_or_else(|| format!("BTF has no field {path} of struct {name}"))
}

/// Structures and fields missing from the kernel's types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Structure or field without which no queue pair can be followed.
    pub needed: Option<String>,
    /// Missing fields whose values are unknown for all queue pairs.
    pub fields: Vec<&'static str>,
    /// Reason why the device of mlx5's commands is unknown.
    pub mlx5: Option<String>,
    /// Reason why the queue pair of bnxt_re's error reasons is unknown.
    pub bnxt: Option<String>,
}

impl Missing {
    /// Of the running kernel; `None` if its types cannot be read.
    pub fn of(root: &HostRoot) -> Option<Self> {
        let layout = Layout::of(&read(root, IB_CORE).ok()?);
        Some(Self {
            fields: layout.as_ref().map_or_else(|_| Vec::new(), Layout::absent),
            needed: layout.err(),
            mlx5: CommandOffsets::read(root).err(),
            bnxt: bnxt_offset(root).err(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::qp_layout::kernels::{self, Printed};
    use super::super::qp_layout::tests::kernel;
    use super::*;
    use crate::host::kernel::btf::tests::Writer;
    use crate::host::read::testing::tree;

    #[test]
    fn the_queue_pair_of_bnxt_re_is_where_pahole_prints_it() {
        let [older, newer] = kernels::KERNELS;
        let offset = bnxt_offset_of(&kernels::btf(newer, BNXT)).unwrap();
        let at = |path| Printed::of(newer).field("bnxt_re_qp", path).offset;
        assert_eq!(at("qplib_qp").wrapping_add(offset), at("ib_qp"));
        // A kernel without types of modules, and one without this module.
        for (kernel, module) in [(newer, "none"), (older, BNXT)] {
            let why = bnxt_offset_of(&kernels::btf(kernel, module)).unwrap_err();
            assert_eq!(why, "BTF has no field ib_qp of struct bnxt_re_qp");
        }
    }

    #[test]
    fn offsets_of_commands_are_those_that_pahole_prints() {
        for kernel in kernels::KERNELS {
            let (offsets, printed) =
                (CommandOffsets::of(&kernels::btf(kernel, MLX5)).unwrap(), Printed::of(kernel));
            assert_eq!(offsets.device, printed.field("mlx5_core_dev", "device").offset);
            assert_eq!(offsets.name, printed.field("device", "kobj.name").offset);
            // A kernel that provides no types of modules.
            let without = CommandOffsets::of(&kernels::btf(kernel, "none")).unwrap_err();
            assert_eq!(without, "BTF has no field device of struct mlx5_core_dev");
        }
        let mut base = Writer::base();
        let long = base.int(8);
        let object = base.structure("kobject", 16, &[("name", long, 0)]);
        base.structure("device", 32, &[("kobj", object, 64)]);
        base.structure("mlx5_core_dev", 64, &[("device", long, 128)]);
        let offsets = CommandOffsets::of(&Btf::parse(base.bytes(), None).unwrap()).unwrap();
        assert_eq!((offsets.device, offsets.name), (16, 8));
    }

    #[test]
    fn what_a_kernel_does_not_describe_is_named() {
        let host = tree(&[("sys/module/mlx5_core/refcnt", "0"), ("sys/kernel/btf/vmlinux", "x")]);
        let root = HostRoot::at(host.path());
        assert_eq!(Missing::of(&root), None, "no BTF");
        let write = |name: &str, bytes: Vec<u8>| {
            std::fs::write(root.path(&format!("/sys/kernel/btf/{name}")), bytes).unwrap();
        };
        // All required fields, no drivers, and neither service level nor hop limit.
        write("vmlinux", kernel());
        let missing = Missing::of(&root).unwrap();
        assert_eq!((missing.needed, missing.fields), (None, Vec::new()));
        assert_eq!(missing.mlx5.as_deref(), Some("BTF has no field device of struct mlx5_core_dev"));
        assert_eq!(missing.bnxt.as_deref(), Some("the module bnxt_re is not loaded"));
        // A real kernel with its modules. Extracts have no threads.
        for name in ["vmlinux", "ib_core", "mlx5_core"] {
            write(name, kernels::file(kernels::KERNELS[0], name).unwrap_or_default());
        }
        let bnxt = Some("the module bnxt_re is not loaded".to_owned());
        let fields = vec!["ib_qp.res.task", "task_struct.tgid"];
        assert_eq!(Missing::of(&root), Some(Missing { fields, bnxt, ..Missing::default() }));
    }

    /// A kernel that removed or renamed fields: required ones are named, optional ones are reported as unknown facts.
    #[test]
    fn fields_that_a_kernel_lacks_are_facts_that_are_unknown() {
        let mut base = Writer::base();
        let (byte, word, long) = (base.int(1), base.int(4), base.int(8));
        let name = base.array(byte, 64);
        base.structure("ib_device", 128, &[("name", name, 64)]);
        base.structure("ib_qp", 72, &[("device", long, 0), ("qp_num", word, 128)]);
        base.structure("ib_qp_attr", 120, &[("qp_state", word, 0), ("timeout", byte, 640)]);
        base.structure("ib_event", 24, &[("device", long, 0)]);
        let layout = Layout::of(&Btf::parse(base.bytes(), None).unwrap()).unwrap();
        let absent = layout.absent();
        for field in [
            "ib_qp.av_sgid_attr",
            "ib_qp.real_qp",
            "ib_qp.res.task",
            "task_struct.tgid",
            "ib_qp_attr.retry_cnt",
            "ib_qp_attr.ah_attr.grh.dgid",
            "ib_event.event",
        ] {
            assert!(absent.contains(&field), "{field}: {absent:?}");
        }
        assert!(
            !absent.contains(&"ib_qp_attr.timeout") && !absent.contains(&"ib_event.device"),
            "{absent:?}"
        );
    }
}

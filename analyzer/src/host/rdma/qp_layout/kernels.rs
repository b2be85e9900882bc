//! Compares the layouts of real kernels, from extracts of their BTF in tests/data/btf, with the output of pahole.

use std::path::{Path, PathBuf};

use super::*;
use crate::host::kernel::btf::{Btf, cut};

/// Kernels whose BTF is kept: those of Debian 12 and its backports.
pub(crate) const KERNELS: [&str; 2] = ["6.1.192", "6.12.95"];

/// Structures in the extracts.
const WANTED: [&str; 11] = [
    "ib_qp",
    "ib_qp_attr",
    "rdma_ah_attr",
    "ib_global_route",
    "ib_gid_attr",
    "ib_device",
    "ib_event",
    "mlx5_core_dev",
    "device",
    "kobject",
    "bnxt_re_qp",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/btf")
}

/// The BTF file of a kernel or module.
pub(crate) fn file(kernel: &str, name: &str) -> Option<Vec<u8>> {
    std::fs::read(folder().join(kernel).join(name)).ok()
}

/// The types of a kernel and one of its modules.
pub(crate) fn btf(kernel: &str, module: &str) -> Btf {
    Btf::parse(file(kernel, "vmlinux").unwrap(), file(kernel, module)).unwrap()
}

/// Structures of a kernel as printed by pahole.
pub(crate) struct Printed(String);

impl Printed {
    pub(crate) fn of(kernel: &str) -> Self {
        Self(std::fs::read_to_string(folder().join(kernel).join("pahole.txt")).unwrap())
    }

    /// A member at a path; with an empty path the structure itself.
    pub(crate) fn field(&self, structure: &str, path: &str) -> Field {
        let mut found = Field { offset: 0, size: 0 };
        let mut of = structure.to_owned();
        for name in path.split('.') {
            let words = self.0.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let line = words.filter(|words| words[..2] == [of.as_str(), name]).collect::<Vec<_>>();
            let [words] = &line[..] else { panic!("{of} {name}: {line:?}") };
            found = Field {
                offset: found.offset + words[2].parse::<u32>().unwrap(),
                size: words[3].parse().unwrap(),
            };
            of = words.get(4).map_or(String::new(), |of| (*of).to_owned());
        }
        found
    }
}

#[test]
fn layouts_are_those_that_pahole_prints() {
    let mut layouts = Vec::new();
    for kernel in KERNELS {
        let (layout, printed) = (Layout::of(&btf(kernel, "ib_core")).unwrap(), Printed::of(kernel));
        let of_qp = |path| printed.field("ib_qp", path);
        let of_attr = |path| Some(printed.field("ib_qp_attr", path));
        let at = |structure, path| printed.field(structure, path).offset;
        let programs = layout.programs;
        assert_eq!((programs.qp_size, programs.attr_size), (of_qp("-").size, of_attr("-").unwrap().size));
        assert_eq!(
            (programs.qp_device, programs.device_name),
            (of_qp("device").offset, at("ib_device", "name"))
        );
        assert_eq!(
            (programs.qp_sgid, programs.gid),
            (of_qp("av_sgid_attr").offset, at("ib_gid_attr", "gid"))
        );
        assert_eq!(programs.qp_real, of_qp("real_qp").offset);
        assert_eq!(programs.event_device, at("ib_event", "device"));
        assert_eq!(programs.event_element, at("ib_event", "element"));
        assert_eq!(programs.event_type, at("ib_event", "event"));
        assert_eq!((layout.qp_num, layout.state), (of_qp("qp_num"), of_attr("qp_state").unwrap()));
        assert_eq!((layout.qp_type, layout.port), (Some(of_qp("qp_type")), Some(of_qp("port"))));
        for (found, path) in [
            (layout.path_mtu, "path_mtu"),
            (layout.rq_psn, "rq_psn"),
            (layout.sq_psn, "sq_psn"),
            (layout.dest_qp, "dest_qp_num"),
            (layout.dgid, "ah_attr.grh.dgid"),
            (layout.flow_label, "ah_attr.grh.flow_label"),
            (layout.traffic_class, "ah_attr.grh.traffic_class"),
            (layout.timeout, "timeout"),
            (layout.retry_cnt, "retry_cnt"),
            (layout.rnr_retry, "rnr_retry"),
        ] {
            assert_eq!(found, of_attr(path), "{kernel}: {path}");
        }
        layouts.push(programs);
    }
    assert_ne!(layouts[0], layouts[1], "the same layout proves nothing");
}

#[test]
fn a_kernel_that_has_the_structures_in_no_file_is_refused_by_name() {
    // Only the kernel's types; the module has the rest.
    let types = btf(KERNELS[0], "ib_core");
    let (base, _) = cut::cut(&types, &["kobject"]);
    let without = Btf::parse(base, None).unwrap();
    assert_eq!(Layout::of(&without).unwrap_err(), "struct ib_qp");
    // The structures in the module, as in a kernel with InfiniBand built as a module.
    let (base, _) = cut::cut(&types, &["ib_qp", "ib_device", "ib_event"]);
    assert_eq!(Layout::of(&Btf::parse(base, None).unwrap()).unwrap_err(), "struct ib_qp_attr");
}

/// Creates the files of tests/data/btf from those of a host: see the README there.
#[test]
#[ignore = "writes the files that the other tests read"]
fn cut_the_files_of_a_host() {
    let from = PathBuf::from(std::env::var("ROCESCOPE_BTF").unwrap());
    let to = folder().join(from.file_name().unwrap());
    std::fs::create_dir_all(&to).unwrap();
    let read = |name: &str| std::fs::read(from.join(name)).ok();
    for module in ["ib_core", "mlx5_core", "bnxt_re"] {
        let types = Btf::parse(read("vmlinux").unwrap(), read(module)).unwrap();
        let (base, part) = cut::cut(&types, &WANTED);
        std::fs::write(to.join("vmlinux"), base).unwrap();
        if let Some(part) = part {
            std::fs::write(to.join(module), part).unwrap();
        }
    }
}

//! Any bytes as the BTF types of a kernel and of a module.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocescope::host::kernel::btf::Btf;
use rocescope::host::rdma::qp_layout::Layout;
use rocescope_fuzz::{root, seeds};

/// Names of structures and fields of the seeds, which the target looks up.
const STRUCTURES: [&str; 6] = ["ib_qp", "ib_qp_attr", "ib_device", "ib_event", "ib_gid_attr", "route"];
const PATHS: [&str; 6] = ["qp_num", "ah_attr.grh.dgid", "device", "name", "element.qp", ""];

/// Encodes types as a compiler does.
#[derive(Default)]
struct Types {
    types: Vec<u8>,
    strings: Vec<u8>,
    next: u32,
}

impl Types {
    fn add(&mut self, name: &str, kind: u32, count: u32, size: u32, extra: &[u32]) -> u32 {
        let name = self.text(name);
        for word in [name, kind << 24 | count, size].iter().chain(extra) {
            self.types.extend(word.to_ne_bytes());
        }
        self.next += 1;
        self.next
    }

    fn text(&mut self, name: &str) -> u32 {
        if self.strings.is_empty() {
            self.strings.push(0);
        }
        if name.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(name.bytes().chain([0]));
        at
    }

    fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let extra: Vec<u32> =
            members.iter().flat_map(|(name, of, bits)| [self.text(name), *of, *bits]).collect();
        self.add(name, 4, members.len() as u32, size, &extra)
    }

    fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = 0xEB9Fu16.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types, types, strings] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        [bytes, self.types.clone(), self.strings.clone()].concat()
    }
}

/// The kernels of the test data, each alone and with each of its modules.
fn recorded() -> Vec<Vec<u8>> {
    let kernels = std::fs::read_dir(root().join("tests/data/btf")).expect("it is there").flatten();
    let mut all = Vec::new();
    for folder in kernels.map(|kernel| kernel.path()).filter(|path| path.is_dir()) {
        let base = std::fs::read(folder.join("vmlinux")).expect("a kernel has types");
        let cut = u16::try_from(base.len()).expect("an extract is short").to_le_bytes();
        let modules = ["ib_core", "mlx5_core", "bnxt_re"].into_iter();
        let modules = modules.filter_map(|name| std::fs::read(folder.join(name)).ok());
        all.extend(
            std::iter::once(Vec::new()).chain(modules).map(|module| [&cut[..], &base, &module].concat()),
        );
    }
    assert!(all.len() > 4, "the test data has kernels with modules");
    all
}

/// The structures that rocescope looks up, the last of them in a module; and [`recorded`].
fn made() -> Vec<Vec<u8>> {
    let mut kernel = Types::default();
    let int = kernel.add("int", 1, 0, 4, &[32]);
    let byte = kernel.add("char", 1, 0, 1, &[8]);
    let gid = kernel.add("", 3, 0, 0, &[byte, int, 16]);
    let pointer = kernel.add("", 2, 0, int, &[]);
    let route = kernel.structure("", 24, &[("flow_label", int, 0), ("dgid", gid, 64)]);
    let path = kernel.structure("rdma_ah_attr", 32, &[("grh", route, 0), ("", route, 0)]);
    let alias = kernel.add("path_t", 8, 0, path, &[]);
    kernel.structure(
        "ib_qp",
        64,
        &[("device", pointer, 0), ("qp_num", int, 64), ("qp_type", int, 96), ("port", int, 128)],
    );
    kernel.structure(
        "ib_qp_attr",
        96,
        &[("qp_state", int, 0), ("path_mtu", int, 32), ("ah_attr", alias, 64)],
    );
    kernel.structure(
        "ib_event",
        24,
        &[("device", pointer, 0), ("element", pointer, 64), ("event", int, 128)],
    );
    kernel.structure("ib_gid_attr", 24, &[("ndev", pointer, 0), ("gid", gid, 64)]);
    let name = kernel.add("", 3, 0, 0, &[byte, int, 64]);
    kernel.structure("ib_device", 128, &[("name", name, 64)]);
    let own = kernel.next + 1;
    kernel.structure("route", 8, &[("", own, 0), ("last", byte, 0)]);
    let whole = kernel.bytes();
    let with = |cut: u16, more: &[u8]| [&cut.to_le_bytes(), whole.as_slice(), more].concat();
    let written = [
        with(u16::MAX, &[]),
        with(whole.len() as u16, &Types::default().bytes()),
        with(whole.len() as u16, &whole),
    ];
    written.into_iter().chain(recorded()).collect()
}

fuzz_target!(init: seeds(made), |input: &[u8]| {
    let Some((cut, bytes)) = input.split_first_chunk() else { return };
    let (base, module) = bytes.split_at(usize::from(u16::from_le_bytes(*cut)).min(bytes.len()));
    let module = (!module.is_empty()).then(|| module.to_vec());
    let Ok(btf) = Btf::parse(base.to_vec(), module) else { return };
    for name in STRUCTURES {
        let Some(structure) = btf.find(name) else { continue };
        for path in PATHS {
            let _field = structure.field(path);
        }
    }
    if let Err(missing) = Layout::of(&btf) {
        assert!(missing.starts_with("struct ") || missing.starts_with("field "), "{missing}");
    }
});

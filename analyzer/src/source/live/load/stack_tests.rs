//! Checks of the compiled kernel programs without a kernel: what older verifiers refuse and this machine's may accept.
//!
//! Kernel 5.15 refuses to read a stack slot that was not written on the path taken, even if nothing uses the value;
//! Debian's 6.1 and newer kernels accept that. The compiler emits such reads where one branch leaves a value undefined,
//! as `None` does its payload.

use std::collections::{BTreeMap, VecDeque};

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

/// Size of a program's stack in bytes.
const STACK: usize = 512;
/// Register with the address of the end of the stack.
const FRAME: u8 = 10;

/// An index or address `by` further on.
fn moved(from: usize, by: i32) -> usize {
    from.checked_add_signed(isize::try_from(by).unwrap()).unwrap()
}

/// An instruction.
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    fn of(bytes: [u8; 8]) -> Self {
        let [code, registers, o0, o1, i0, i1, i2, i3] = bytes;
        Self {
            code,
            to: registers & 15,
            from: registers >> 4,
            offset: i16::from_le_bytes([o0, o1]),
            immediate: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    /// Bytes that a load or store moves.
    fn size(self) -> usize {
        [4, 2, 1, 8][usize::from(self.code >> 3 & 3)]
    }

    /// The bytes of the stack that it reads (`true`) or writes as a load or store of the frame.
    fn access(self) -> Option<(bool, std::ops::Range<usize>)> {
        const MEMORY: u8 = 0x60;
        const SIGNED: u8 = 0x80;
        let reads = match (self.code & 7, self.code & 0xe0) {
            (1, MEMORY | SIGNED) if self.from == FRAME => true,
            (2 | 3, MEMORY) if self.to == FRAME => false,
            _ => return None,
        };
        let start = moved(STACK, self.offset.into());
        Some((reads, start..start + self.size()))
    }

    /// The instructions that may follow that at `index`.
    fn next(self, index: usize) -> Vec<usize> {
        const LOAD_64: u8 = 0x18;
        const CALL: u8 = 0x80;
        let to = |offset: i32| moved(index + 1, offset);
        match (self.code & 7, self.code & 0xf0) {
            _ if self.code == LOAD_64 => vec![index + 2],
            (5, 0x90) => vec![],
            (5, 0x00) => vec![to(self.offset.into())],
            (6, 0x00) => vec![to(self.immediate)],
            (5 | 6, operation) if operation != CALL => vec![index + 1, to(self.offset.into())],
            _ => vec![index + 1],
        }
    }
}

/// The lowest byte whose address is taken: helpers write from there on. What the compiler itself keeps is below.
fn lowest_address(program: &[Instruction]) -> usize {
    const COPY: u8 = 0xbf;
    const ADD: u8 = 0x07;
    let taken = program.iter().enumerate().filter(|(_, one)| one.code == COPY && one.from == FRAME);
    let lowest = taken.filter_map(|(at, copy)| {
        let mut rest = program[at + 1..].iter().take(4);
        rest.find(|one| one.code == ADD && one.to == copy.to).map(|add| add.immediate)
    });
    lowest.min().map_or(STACK, |lowest| moved(STACK, lowest))
}

/// The instructions that read a byte of the stack which some path to them did not write.
fn unwritten_reads(program: &[Instruction]) -> Vec<usize> {
    let known = lowest_address(program);
    let mut before: BTreeMap<usize, Vec<bool>> = BTreeMap::from([(0, vec![false; STACK])]);
    let mut left = VecDeque::from([0]);
    while let Some(index) = left.pop_front() {
        let mut written = before[&index].clone();
        if let Some((false, bytes)) = program[index].access() {
            written[bytes].fill(true);
        }
        for next in program[index].next(index) {
            let changed = match before.get_mut(&next) {
                None => before.insert(next, written.clone()).is_none(),
                Some(all) => {
                    let both: Vec<bool> =
                        all.iter().zip(&written).map(|(one, other)| *one && *other).collect();
                    let is_less = both != *all;
                    *all = both;
                    is_less
                }
            };
            if changed {
                left.push_back(next);
            }
        }
    }
    let is_bad = |(index, written): (&usize, &Vec<bool>)| {
        let access = program[*index].access().filter(|(reads, bytes)| *reads && bytes.start < known);
        access.is_some_and(|(_, mut bytes)| bytes.any(|byte| !written[byte])).then_some(*index)
    };
    before.iter().filter_map(is_bad).collect()
}

/// The programs of an object by name.
fn programs(object: &[u8]) -> Vec<(String, Vec<Instruction>)> {
    let file = ElfFile64::<Endianness>::parse(object).unwrap();
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    functions
        .map(|symbol| {
            let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
            let start = usize::try_from(symbol.address()).unwrap();
            let end = start + usize::try_from(symbol.size()).unwrap();
            let (code, rest) = section.data().unwrap()[start..end].as_chunks();
            assert!(rest.is_empty());
            (symbol.name().unwrap().to_owned(), code.iter().copied().map(Instruction::of).collect())
        })
        .collect()
}

#[test]
fn no_program_reads_a_stack_slot_that_a_path_did_not_write() {
    let objects: [(&str, &[u8]); 3] = [
        ("rocescope-ebpf", aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rocescope-ebpf"))),
        ("rocescope-qps", aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rocescope-qps"))),
        ("rocescope-posts", aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/rocescope-posts"))),
    ];
    for (object, bytes) in objects {
        let all = programs(bytes);
        assert!(all.iter().any(|(name, _)| name.starts_with("rocescope_")), "{object} has no program");
        for (name, program) in all {
            assert_eq!(unwritten_reads(&program), [] as [usize; 0], "{name} of {object}");
        }
    }
}

#[test]
fn a_read_that_one_path_did_not_write_is_found() {
    let store = [0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0]; // *(u64 *)(r10 - 8) = r1
    let branch = [0x15, 0x01, 0x01, 0, 0, 0, 0, 0]; // if r1 == 0 goto +1
    let load = [0x79, 0xa0, 0xf8, 0xff, 0, 0, 0, 0]; // r0 = *(u64 *)(r10 - 8)
    let exit = [0x95, 0, 0, 0, 0, 0, 0, 0];
    let found =
        |all: &[[u8; 8]]| unwritten_reads(&all.iter().copied().map(Instruction::of).collect::<Vec<_>>());
    assert_eq!(found(&[branch, store, load, exit]), [2]);
    assert_eq!(found(&[store, branch, load, load, exit]), [] as [usize; 0]);
}

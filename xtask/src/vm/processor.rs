//! Processors of guests. QEMU emulates each of them: neither KVM nor hardware is needed.

use crate::dist::Target;

/// The processor of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Processor {
    #[default]
    X86,
    Arm,
}

impl Processor {
    /// Parses the value of an argument.
    ///
    /// # Errors
    /// Lists the accepted values.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "x86_64" => Ok(Self::X86),
            "aarch64" => Ok(Self::Arm),
            _ => Err("guests are machines with x86_64 or aarch64".to_owned()),
        }
    }

    /// Debian's name of it.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86 => Target::X86.debian(),
            Self::Arm => Target::Arm.debian(),
        }
    }

    /// The target of its static programs, where those of this machine do not run on it.
    pub(super) fn foreign_target(self) -> Option<Target> {
        match self {
            Self::X86 => None,
            Self::Arm => Some(Target::Arm),
        }
    }

    /// The emulator.
    pub(super) fn emulator(self) -> &'static str {
        match self {
            Self::X86 => "qemu-system-x86_64",
            Self::Arm => "qemu-system-aarch64",
        }
    }

    /// The emulator's arguments for a machine with it.
    pub(super) fn machine(self) -> &'static [&'static str] {
        match self {
            // Tables of four levels instead of five take a twentieth of the time. Each step of a `rep` is emulated:
            // without fast strings, kernel and C library copy and clear by eight bytes a step instead of one.
            Self::X86 => &["-cpu", "max,la57=off,erms=off,fsrm=off"],
            // Authentication of pointers doubles the time of an emulated processor.
            Self::Arm => &["-machine", "virt", "-cpu", "max,pauth-impdef=on"],
        }
    }

    /// Arguments of the kernel. `init_on_alloc=0`: Debian's clears all memory that it hands out. `rcu_expedited`:
    /// whoever removes a probe, a module or an interface does not wait for the next tick of each processor.
    pub(super) fn kernel_arguments(self) -> String {
        let own = match self {
            Self::X86 => "console=ttyS0 tsc=reliable",
            Self::Arm => "console=ttyAMA0",
        };
        format!(
            "{own} quiet loglevel=4 panic=-1 mitigations=off nokaslr init_on_alloc=0 rcupdate.rcu_expedited=1"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_named_as_the_kernel_does() {
        assert_eq!(Processor::parse("aarch64"), Ok(Processor::Arm));
        assert_eq!(Processor::parse("x86_64"), Ok(Processor::X86));
        assert!(Processor::parse("arm64").unwrap_err().contains("aarch64"));
    }
}

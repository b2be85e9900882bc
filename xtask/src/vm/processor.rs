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
            // Tables of four levels instead of five take a twentieth of the time.
            Self::X86 => &["-cpu", "max,la57=off"],
            // Authentication of pointers doubles the time of an emulated processor.
            Self::Arm => &["-machine", "virt", "-cpu", "max,pauth-impdef=on"],
        }
    }

    /// Arguments of the kernel.
    pub(super) fn kernel_arguments(self) -> &'static str {
        match self {
            Self::X86 => "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr tsc=reliable",
            Self::Arm => "console=ttyAMA0 quiet loglevel=4 panic=-1 mitigations=off nokaslr",
        }
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

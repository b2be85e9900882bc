//! Options of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::super::values::{parse_lldp_capture, positive};
use super::PageOutput;

const DOCTOR_EXAMPLES: &str = "\
Exit status: 0 success, 1 failure, 2 invalid usage, 3 a check is critical.

Examples:
  sudo rocescope doctor                       changes nothing
  sudo rocescope doctor --verbose             unknown settings too, with reasons
  sudo rocescope doctor --lldp 35s            wait for LLDP frames of the switch
  rocescope doctor --lldp-capture eth2=lldp.pcap       or read them from a file
  sudo rocescope doctor --netns 4711          in the pod of process 4711
  sudo rocescope doctor --clean               remove TC filters of a killed run";

/// Options of `doctor`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub struct DoctorArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = PageOutput::Text)]
    pub output: PageOutput,
    /// Also list unknown settings, with reasons
    #[arg(short, long)]
    pub verbose: bool,
    /// Network namespace to check: a name, or the PID of a process in it
    #[arg(long, value_name = "NAME|PID")]
    pub netns: Option<String>,
    /// Remove the TC filters that a killed run left behind (kernels before 6.6)
    #[arg(long)]
    pub clean: bool,
    /// Listen for LLDP frames of the switches for at most this time
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub lldp: Option<Duration>,
    /// Interface, and capture with the LLDP frames of its switch; repeatable
    #[arg(long, value_name = "IFACE=FILE", value_parser = parse_lldp_capture)]
    pub lldp_capture: Vec<(String, PathBuf)>,
}

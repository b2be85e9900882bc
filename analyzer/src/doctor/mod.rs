//! `rocescope doctor`: visibility per source on this host, and its RoCE configuration.
//!
//! | part | does |
//! |---|---|
//! | [`collect()`] | reads the facts; a failed read is recorded with its reason |
//! | [`ask_contexts`] | asks the devices for one context each |
//! | [`facts`] | the facts, without judgement |
//! | [`visibility`] | the sources that work here, from the facts |
//! | [`layers`] | the layers that show queue pairs of offloaded NICs, from the facts |
//! | [`check`] | checks and their verdicts, from the facts |
//! | [`text`], [`Page::json`] | output |

pub mod check;
mod collect;
mod contexts;
pub mod facts;
mod grouping;
pub mod layers;
#[cfg(test)]
mod tests;
pub mod text;
pub mod visibility;

use std::fmt::Write as _;

use serde::Serialize;

use check::{Check, Status};
pub use collect::{Privileged, collect, collect_with};
pub use contexts::ask_contexts;
use facts::HostFacts;
use layers::Layer;
use visibility::Visibility;

/// Name and version of the JSON document.
pub const SCHEMA: &str = "rocescope.doctor/1";

/// The result of doctor.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Version of the format, [`SCHEMA`].
    pub schema: &'static str,
    /// The sources of each port and interface, and whether they work.
    #[serde(rename = "sights")]
    pub visibility: Vec<Visibility>,
    /// The layers that show queue pairs of NICs that do RoCE themselves; empty without a RoCE device.
    pub layers: Vec<Layer>,
    /// The checks, the worst verdict first.
    pub checks: Vec<Check>,
    /// The facts that both are based on.
    pub host: HostFacts,
}

impl Page {
    /// The page about a host.
    pub fn of(host: HostFacts) -> Self {
        Self {
            schema: SCHEMA,
            visibility: visibility::of_host(&host),
            layers: layers::of_host(&host),
            checks: check::check(&host),
            host,
        }
    }

    /// True when a check is critical.
    pub fn is_critical(&self) -> bool {
        self.checks.iter().any(|check| check.verdict == Status::Critical)
    }

    /// The page as JSON, over several lines.
    ///
    /// # Errors
    /// None in practice: every value has a JSON representation.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// The text of docs/doctor.md.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    for entry in check::catalog() {
        let _ = writeln!(text, "- **{}**: {}", entry.id, entry.about);
    }
    text.push_str("\n## Numbers that no setting changes\n\n");
    for one in check::DEFINITIONS.into_iter().flatten() {
        let _ = writeln!(text, "{one}");
    }
    text
}

const HEAD: &str = "\
# doctor

Generated from the program; a test holds it up to date.

`rocescope doctor` reads the host and changes nothing. For every interface and RDMA device it lists the sources that work there (packets, sniffer,
counters) and the layers that show queue pairs whose packets bypass the kernel, then checks the RoCE configuration: each setting with its value, a verdict and the command that changes it. A setting that cannot be read is
unknown; `--verbose` gives the reason. Exit status: 0, or 3 when a check is critical.

```console
$ sudo rocescope doctor                            # works without root; root can read more
$ sudo rocescope doctor --verbose                  # also lists unknown settings, with reasons
$ sudo rocescope doctor --lldp 35s                 # receive the switch's LLDP frames (sent every 30 s)
$ rocescope doctor --lldp-capture eth2=lldp.pcap   # or read them from a capture of that interface
$ rocescope doctor --output json                   # schema rocescope.doctor/1: sights, layers, checks, host
$ sudo rocescope doctor --netns 4711               # network namespace of process 4711 (its pod)
$ sudo rocescope doctor --clean                    # remove TC filters that a killed run left behind
```

RoCE settings are checked where there is RDMA. Identical entries (the eight NICs of a host, the processes of a job) are grouped under all their names, with the text and commands
of the first. Interfaces without RDMA (veth, dummy, ifb, ports without a link) share a line. `--verbose` and `--output json` list every entry separately.
Commands can be pasted as they are: they name the executable by its path where sudo would not find it, and include sudo where privileges are missing. Commands that
change settings need a root shell.

Verdicts: `critical` (traffic stalls, is lost, or runs far below the hardware's capability), `warning` (reduced performance or visibility),
`info`, `ok`, `unknown`.

During `rocescope live` the same checks run in the background; warnings and critical results for the watched interfaces become findings (`config.*`).

Doctor has not been tested on RDMA NIC hardware: readers and checks are tested on host trees written by hand from the drivers' sources (tests/data/host). Assumptions that the sources do not settle:

- irdma: counter names are those of hw/irdma/verbs.c in Linux, including the third generation. iWARP and RoCE share counters: `RetransSegs` is read as RoCE
  retransmissions, `RTO` as ACK timeouts, `RxUDP` and `TxUDP` as RoCE packets, since the device sends no other UDP.
- bnxt_re: `rx_pkts` and `tx_pkts` (unicast packets of the RoCE function) are read as RoCE packets.
- mlx5: the files below `ecn`, `qos` and `tc` are those documented for MLNX_OFED and DOCA.
- QP context: the decoders for mlx5 and hns follow the public definitions of the Linux drivers. The rest is learned from the device's own idle
  queue pairs: whether retry counters count down, and whether the acknowledged PSN is the last or the next one. A context that names another peer than the
  kernel does is not used. `doctor` reads the context of one connected queue pair of each device, and says how many bytes came and whether they could be
  decoded. bnxt_re returns 1,088 bytes for whose layout no public definition was found (in Linux, rdma-core, iproute2 and Broadcom's own driver): not
  decoded; and the kernel's bnxt_fwctl lets no command pass that reads a queue pair. Packets in flight and retries in use of Broadcom NICs are unknown.

## Checks

";

//! `rocescope doctor`: what can be seen on this host, through which source, what is set wrong.
//!
//! | part | does |
//! |---|---|
//! | [`collect()`] | reads the facts; what fails is unknown, with the reason |
//! | [`facts`] | what is known of the host, not judged |
//! | [`sight`] | what rocescope can see, from the facts |
//! | [`check`] | verdicts, from the facts |
//! | [`text`], [`Page::json`] | views |

pub mod check;
mod collect;
pub mod facts;
mod fold;
pub mod sight;
#[cfg(test)]
mod tests;
pub mod text;

use std::fmt::Write as _;

use serde::Serialize;

use check::{Check, Verdict};
pub use collect::collect;
use facts::HostFacts;
use sight::Sight;

/// Name and version of the JSON document.
pub const SCHEMA: &str = "rocescope.doctor/1";

/// Everything doctor has to say.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What can be seen.
    pub sights: Vec<Sight>,
    /// Verdicts, the worst first.
    pub checks: Vec<Check>,
    /// What they rest on.
    pub host: HostFacts,
}

impl Page {
    /// The page about a host.
    #[must_use]
    pub fn of(host: HostFacts) -> Self {
        Self { schema: SCHEMA, sights: sight::sights(&host), checks: check::check(&host), host }
    }

    /// Whether something critical was found.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        self.checks.iter().any(|check| check.verdict == Verdict::Critical)
    }

    /// The page as JSON, over several lines.
    ///
    /// # Errors
    /// None that is known: it holds nothing that JSON cannot.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// The text of docs/doctor.md.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    for entry in check::catalog() {
        let _ = writeln!(text, "- **{}**: {}", entry.id, entry.about);
    }
    text
}

const HEAD: &str = "\
# doctor

Generated from the program; a test holds it up to date.

`rocescope doctor` reads the host and changes nothing. It says, for every interface and RDMA device, what rocescope can see there and by
which source, then judges the settings that make RoCE work: each with its value, a verdict and how to change it. What cannot be read is unknown,
and `--verbose` says why. Exit status: 0, or 3 when something critical was found.

```console
$ sudo rocescope doctor                            # more can be read as root; it works without
$ sudo rocescope doctor --verbose                  # also what could not be read, and why
$ sudo rocescope doctor --lldp 35s                 # listen for what the switch says (it speaks every 30 s)
$ rocescope doctor --lldp-capture eth2=lldp.pcap   # or take it from a capture made on that interface
$ rocescope doctor --output json                   # schema rocescope.doctor/1: sights, checks, host
$ sudo rocescope doctor --netns 4711               # what can be seen inside the pod of process 4711
$ sudo rocescope doctor --clean                    # remove TC filters that a killed run left behind
```

RoCE settings are judged where there is RDMA. What is said alike of several (the eight NICs of a host, the processes of a job) is said once, with the names of all of
them; commands are then for the first. Interfaces that have no RDMA share a line (veth, dummy, ifb, ports without a link). `--verbose` gives each its own, and `--output json` too.
Commands are those for this process: the program by the path of its file where sudo would not find it by name, and sudo where rights are missing; those that change settings
want a root shell, and a line says so to others.

Verdicts: `critical` (traffic stalls, is lost or runs far below what the hardware can do), `warning` (it costs performance or hides something),
`info`, `ok`, `unknown`.

During `rocescope live` the same checks run in the background, and those about what is watched that give a warning or worse are among the findings (`config.*`).

It has not run on an RDMA NIC: readers and checks are tested on recorded trees, written by hand from the drivers' sources (tests/data/host). Assumed, because the sources say no more:

- irdma: names of counters are those of hw/irdma/verbs.c in Linux, the third generation's included. It has one counter for what iWARP and RoCE both do, so that
  `RetransSegs` is taken for RoCE packets sent again, and `RTO` for ACK timeouts; `RxUDP` and `TxUDP` for RoCE packets, since nothing else of it is UDP.
- bnxt_re: `rx_pkts` and `tx_pkts` (unicast packets of the function that does RoCE) are taken for RoCE packets.
- mlx5: the files below `ecn`, `qos` and `tc` are those that the documentation of MLNX_OFED and DOCA names.

## What is checked

";

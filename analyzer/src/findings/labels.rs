//! Labels and units of evidence values shared by several families. The declaration of a family takes precedence.

use super::family::label;
use super::{Label, Unit};

/// Labels of what more than one family gives.
pub(super) const COMMON: &[Label] = &[
    label("acks", "acknowledgements", Unit::Count),
    label("bad", "packets with a wrong ICRC", Unit::Count).summed(),
    label("behind_ns", "behind the others", Unit::Nanoseconds),
    label("behind_ratio", "delay, share of a step", Unit::Ratio),
    label("better_case", "better setting", Unit::Text),
    label("better_max_over_mean_p50", "busiest link over mean with that setting, median", Unit::Factor),
    label("bins_dropped", "bins dropped", Unit::Count),
    label("busiest", "busiest link", Unit::Text),
    label("busy_ratio", "share of a step spent communicating", Unit::Ratio),
    label("bytes", "bytes", Unit::Bytes),
    label("bytes_ratio", "share of the bytes", Unit::Ratio),
    label("capture_drops", "dropped by the capture", Unit::Count),
    label("ce_packets", "CE-marked packets", Unit::Count).summed(),
    label("ce_ratio", "CE ratio", Unit::Ratio),
    label("certain", "certain", Unit::Text),
    label("change", "change", Unit::Text),
    label("check", "check", Unit::Text),
    label("cnp_packets", "CNPs", Unit::Count).summed(),
    label("cnp_packets_in_data_class", "CNPs in the class of the data", Unit::Count),
    label("contended", "packets without a flow, contended", Unit::Count),
    label("data_bytes", "data", Unit::Bytes),
    label("dest_qp", "destination QP", Unit::Id),
    label("device", "device", Unit::Text),
    label("direction", "direction", Unit::Text),
    label("driver", "driver", Unit::Text),
    label("dscp", "DSCP", Unit::Id),
    label("ecn_capable_packets", "ECN-capable packets", Unit::Count).summed(),
    label("effective_five_tuples", "effective 5-tuples", Unit::Count),
    label("effective_queue_pairs", "effective queue pairs", Unit::Count),
    label("events_dropped", "events dropped", Unit::Count),
    label("expected_collisions", "collisions expected", Unit::Count),
    label("extra_table_full", "source ports or opcodes not listed", Unit::Count),
    label("findings", "findings in this one", Unit::Count),
    label("five_tuples", "5-tuples", Unit::Count),
    label("flow_table_full", "packets without a flow, table full", Unit::Count),
    label("flows", "flows", Unit::Count),
    label("flows_unjudged", "flows not evaluated", Unit::Count),
    label("frames", "pause frames", Unit::Count).summed(),
    label("from", "sender of the pauses", Unit::Text),
    label("gaps_ce_ratio", "PSN gaps followed by a CE-marked packet", Unit::Ratio),
    label("host", "host", Unit::Text),
    label("bin_bytes", "maximum data in a bin", Unit::Bytes),
    label("incast_bins", "bins with incast", Unit::Count),
    label("incast_bytes", "data in incast bins", Unit::Bytes),
    label("incast_bytes_ratio", "share of the receiver's data in incast bins", Unit::Ratio),
    label("incast_ce_ratio", "CE ratio in incast bins", Unit::Ratio),
    label("incast_gaps", "PSN gaps in incast bins", Unit::Count),
    label("nak_episodes", "NAK episodes of the receiver", Unit::Count),
    label("interface_drops", "dropped by the interface", Unit::Count),
    label("interface_mtu", "MTU of the interface", Unit::Bytes),
    label("jain", "Jain's index", Unit::Number),
    label("kind", "kind", Unit::Text),
    label("largest_path_mtu", "largest path MTU", Unit::Bytes),
    label("last_data_ns", "last data", Unit::Time),
    label("least_share", "paused share, at least", Unit::Ratio),
    label("link", "link", Unit::Link),
    label("links", "links", Unit::Link),
    label("sources", "senders in this direction", Unit::Text),
    label("longest_ns", "longest", Unit::Nanoseconds),
    label("longest_ratio", "longest, share of the flow's time", Unit::Ratio),
    label("lossless", "lossless priorities", Unit::Id),
    label("lost_ratio", "share not counted", Unit::Ratio),
    label("marked_ns", "CE marks seen over", Unit::Nanoseconds),
    label("marked_time_ratio", "time bins with CE marks", Unit::Ratio),
    label("max_ns", "maximum", Unit::Nanoseconds),
    label("max_over_mean", "busiest link over mean", Unit::Factor),
    label("max_over_mean_max", "busiest link over mean, largest of a window", Unit::Factor),
    label("max_over_mean_p50", "busiest link over mean, median", Unit::Factor),
    label("most_share", "paused share, at most", Unit::Ratio),
    label("not_ect_packets", "Not-ECT packets", Unit::Count).summed(),
    label("not_ect_ratio", "Not-ECT share", Unit::Ratio),
    label("of", "of", Unit::Text),
    label("of_steps", "steps in that time", Unit::Count),
    label("of_windows", "windows in total", Unit::Count),
    label("other_bytes", "other traffic", Unit::Bytes),
    label("other_ce_ratio", "CE ratio in other bins", Unit::Ratio),
    label("other_gaps", "PSN gaps in other bins", Unit::Count),
    label("outstanding_flows", "flows with outstanding requests", Unit::Count),
    label("p50_ns", "median", Unit::Nanoseconds),
    label("p99_ns", "p99", Unit::Nanoseconds),
    label("p999_ns", "p99.9", Unit::Nanoseconds),
    label("p99_over_p50", "p99 over median", Unit::Factor),
    label("packets", "packets", Unit::Count).summed(),
    label("path_mtu", "path MTU", Unit::Bytes),
    label("paused_ns", "paused", Unit::Nanoseconds),
    label("paused_ratio", "paused, share of the time", Unit::Ratio),
    label("payload_bytes", "payload", Unit::Bytes).summed(),
    label("peak_ratio", "highest CE ratio of a time bin", Unit::Ratio),
    label("per_s", "per second", Unit::PerSecond),
    label("period_ns", "period of the steps", Unit::Nanoseconds),
    label("pids", "PIDs", Unit::Id),
    label("priority", "priority", Unit::Id),
    label("quanta", "pause quanta", Unit::Count).summed(),
    label("queue_pairs", "queue pairs", Unit::Count),
    label("rate_after_cnp_bps", "sender's rate after a CNP", Unit::BitsPerSecond),
    label("rate_before_cnp_bps", "sender's rate before a CNP", Unit::BitsPerSecond),
    label("ratio", "ratio", Unit::Ratio),
    label("reason", "reason", Unit::Text),
    label("receiver", "receiver", Unit::Text),
    label("receivers", "receivers", Unit::Count),
    label("roce_bytes", "RoCE traffic", Unit::Bytes),
    label("run_max_over_mean", "busiest link over mean, whole run", Unit::Factor),
    label("samples", "samples", Unit::Count),
    label("seconds", "seconds", Unit::Count),
    label("senders_max", "senders in one bin, at most", Unit::Count),
    label("share", "share", Unit::Ratio),
    label("silent_ns", "silence", Unit::Nanoseconds),
    label("since_ns", "since", Unit::Time),
    label("slower_ratio", "growth of the step time", Unit::Ratio),
    label("source_ports", "source ports", Unit::Count),
    label("stalled_ns", "stall by flow", Unit::Nanoseconds),
    label("steps", "steps", Unit::Count),
    label("steps_seen", "steps of the run", Unit::Count),
    label("tool_lost", "packets dropped before rocescope saw them", Unit::Count),
    label("trend_ns_per_step", "longer with each step by", Unit::Nanoseconds),
    label("unfinished_ratio", "part of a step sent", Unit::Ratio),
    label("until_ns", "until", Unit::Time),
    label("uplinks", "uplinks", Unit::Count),
    label("value", "value", Unit::Text),
    label("waits_for", "the others wait for", Unit::Text),
    label("window_ns", "window", Unit::Nanoseconds),
    label("windows", "windows", Unit::Count),
    label("worst_flow_ratio", "highest CE ratio of a flow", Unit::Ratio),
    label("worst_frames_per_s", "pause frames per second, maximum", Unit::PerSecond),
    label("worst_share", "paused share, worst window", Unit::Ratio),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::FAMILIES;

    fn sources() -> Vec<(String, String)> {
        sources_of("findings")
    }

    /// The source files of a module without tests.
    fn sources_of(module: &str) -> Vec<(String, String)> {
        let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module)];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { &mut folders } else { &mut files }.push(path);
            }
        }
        let read = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            (path.to_string_lossy().into_owned(), code)
        };
        let is_code = |path: &std::path::PathBuf| {
            let path = path.to_string_lossy();
            path.ends_with(".rs") && !["tests.rs", "fixtures.rs"].iter().any(|end| path.ends_with(end))
        };
        files.into_iter().filter(is_code).map(read).collect()
    }

    /// The names in calls of `.evidence("…"`, and in those that add a value to a finding.
    fn used() -> Vec<(String, String)> {
        let mut used = Vec::new();
        for (file, code) in sources() {
            let added = code.match_indices("Evidence::declared(self.id, ");
            for (at, call) in code.match_indices(".evidence(").chain(added) {
                let Some(rest) = code[at + call.len()..].trim_start().strip_prefix('"') else { continue };
                used.push((file.clone(), rest[..rest.find('"').unwrap()].to_owned()));
            }
        }
        used
    }

    #[test]
    fn every_measurement_has_a_label_and_a_unit() {
        let declared = |name: &str| {
            let own = FAMILIES.iter().flat_map(|family| family.evidence);
            COMMON.iter().chain(own).any(|label| label.name == name)
        };
        let open: Vec<_> = used().into_iter().filter(|(_, name)| !declared(name)).collect();
        assert!(open.is_empty(), "declare {open:?}");
    }

    /// Names that are not literals must have a label where they are created.
    #[test]
    fn no_measurement_gets_its_name_from_data() {
        // A choice between two literals, and forwarded names.
        let known =
            ["if side == Side::Upstream { \"lost\" } else { \"asked_again\" }", "name, value)", "raised)"];
        let mut open = Vec::new();
        for (file, code) in sources() {
            for (at, call) in code.match_indices(".evidence(") {
                let rest = code[at + call.len()..].trim_start();
                if !rest.starts_with('"') && !known.iter().any(|one| rest.starts_with(one)) {
                    open.push(format!("{file}: {}", rest.chars().take(40).collect::<String>()));
                }
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    /// Constants that are numbers and no thresholds, with what they are.
    const NO_THRESHOLDS: [(&str, &str); 13] = [
        ("HEAVIEST", "how many are listed"),
        ("HOSTS_EACH", "how many are listed"),
        ("FLOWS", "how many are listed"),
        ("SEEDS", "how many are tried"),
        ("GOLDEN", "constant of a hash function"),
        ("UNSUPPORTED_SERVICE", "number of the protocol"),
        ("REFUSED_SERVICE", "number of the protocol"),
        ("HEADERS", "bytes of headers"),
        ("OVER_NS", "reference to a definition"),
        ("NAMED", "how many are listed"),
        ("NARROWEST", "columns of a page"),
        ("WIDEST", "columns of a page"),
        ("FIRST_NS", "a time"),
    ];

    /// A number that decides about a finding must be a threshold of the family or a definition, with meaning and
    /// reason. A name with `MAX` or `MOST` is that of a bound on memory, time or space.
    #[test]
    fn no_threshold_is_outside_the_limits() {
        let is_number = |kind: &str| ["f64", "i64", "u64", "u32", "u8", "usize"].contains(&kind);
        let is_bound = |name: &str| name.starts_with("MAX") || name.starts_with("MOST");
        let mut open = Vec::new();
        for (file, code) in ["findings", "analysis", "fleet", "doctor"].into_iter().flat_map(sources_of) {
            for line in code.lines().map(str::trim_start) {
                let Some((name, rest)) =
                    line.split_once("const ").and_then(|(_, rest)| rest.split_once(": "))
                else {
                    continue;
                };
                let kind = rest.split(' ').next().unwrap_or_default();
                if is_number(kind)
                    && !is_bound(name)
                    && !NO_THRESHOLDS.iter().any(|(known, _)| *known == name)
                {
                    open.push(format!("{file}: {name}"));
                }
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    /// A step must have a command, or state why there is none.
    #[test]
    fn no_step_is_without_a_command_and_without_a_reason() {
        for (file, code) in sources() {
            for (at, call) in code.match_indices(".step(") {
                // Up to the closing bracket; no step text has an unmatched one.
                let mut depth = 1;
                let rest = &code[at + call.len()..];
                let end = rest.find(|c| {
                    depth += i32::from(c == '(') - i32::from(c == ')');
                    depth == 0
                });
                let arguments = rest[..end.unwrap()].trim_end_matches([' ', '\n', ',']);
                assert!(!arguments.ends_with("None"), "{file}: {arguments}");
            }
        }
    }

    #[test]
    fn each_name_is_declared_once_and_used() {
        let mut names: Vec<&str> = COMMON.iter().map(|label| label.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        let used = used();
        let unused: Vec<_> = names.iter().filter(|name| !used.iter().any(|(_, one)| one == *name)).collect();
        assert!(unused.is_empty(), "{unused:?}");
    }
}

//! Generates docs/recording.md from the registry.

use std::fmt::Write as _;

use super::clickhouse::create_table;
use super::registry::TABLES;
use super::table::{Column, Row as _};
use crate::analysis::fixtures::document;

const HEAD: &str = "\
# Recordings

<!-- Made from analyzer/src/record/registry.rs and document.rs: change these, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope recording_page -->

`rocescope record` observes interfaces as `live` does, with the same options for the source, and writes the counts of every
interval to Parquet files. Any engine that reads Parquet can read them; `rocescope replay` replays them.

```console
$ sudo rocescope record                                            # to /var/lib/rocescope
$ sudo rocescope record -i eth2 --dir /data/roce --keep 30d,100GiB --rollup 10s
$ rocescope record --read trace.pcap --dir tables                  # a capture as tables
$ rocescope replay /var/lib/rocescope --from 2026-01-01T03:00:00Z  # time travel, findings, events
$ rocescope replay tables --output json
$ rocescope diff monday/ today/                                    # recordings, captures or reports
```

## Files

```text
<dir>/v1/<table>/date=2026-11-22/hour=12/host=node17/part-<time of the first row>-<uuid>.parquet
<dir>/journal/<host>.<uuid>.journal        rows that are not in a file yet
<dir>/journal/<host>.lock                  locked by the process that records the host there; a second one is refused
<dir>/queue/                               files not yet sent to ClickHouse (--clickhouse)
```

- A file is written under a temporary name, synced and renamed: a reader of `*.parquet` sees only complete files. Files never change
  afterwards, so `rclone`, `aws s3 sync` or a shared mount can copy them. Folders have the layout of Hive partitions: a query for an hour reads
  only the files of that hour. In the name of a folder each other character of a host than ASCII letters, digits, `-`, `_` and `.` is `_`, and
  engines take `host` from there by default (DuckDB: not with `hive_partitioning = false`).
- The folder, `v1`, `journal` and `queue` are made for their owner and group alone (0750), as rows name hosts, jobs and addresses. For an
  engine that another user runs, make that user a member of the group, or `chmod` the folder and `v1`.
- New files begin when `--rotate` is reached (15 minutes, or 64 MiB for all tables together), and with each hour (UTC).
- The rows of every interval are first written to a journal. After `kill -9`, the next `record` in the same folder seals the journal
  and says up to which time its rows reach: at most the interval after it is lost, and the milliseconds for which its rows were on the way to
  the journal. Rows that wait (the sums of an interval of `flow_rollup`, the minute of `hosts`, new figures of `findings`, the last step) are
  in the journal as they are so far, and become rows. An interval takes some 25 bytes of the journal for each row and 0.6 kB: with `--rollup` 0.7 kB for one flow, 2 kB for 16 on
  16 links, 25 kB for 400 to as many destinations. `replay` says for how long no run recorded. The journal is synced to the disk every 30 s: a power failure loses up to 30 s. The journal of an older version is sealed as well, with null in columns that it lacks.
  A journal whose rows, of all tables together, would take more memory than those of a recorder (1.07 GB) is left as it is, and named.
- Bytes of others take no memory without a bound. A file is left out, and named, if its pages of a row group would take more than 268 MB, its
  metadata more than 34 MB, or its texts with those of the other tables more than 268 MB; so is one that is compressed otherwise than with LZ4_RAW, or has texts
  encoded otherwise than plain or by a dictionary. A playback holds at most 262,144 flows, 65,536 queue pairs, 4,096 links, 4,096 ports, 65,536 findings, 4,194,304
  steps and 1,048,576 events of an interval; a message has the number of rows beyond these. Packets of flows beyond count in `totals.lost.flow_table_full`. Rows with counts that 64 bits
  do not hold the sum of (2.3 × 10^18 for each table, twice that for devices) are among these.
- `record --read` refuses a capture whose links have rows of the same host and time in the folder: its packets would count twice. Captures of
  other links or times, and of other hosts (`--host`), go into one folder. Name the host of each capture: by default it is this
  machine, and `fleet` takes all captures that were recorded on it as one host, which it says where they are in several folders.
- `--keep` (7 days, 20 GiB) removes the oldest files, of this host only. Age is measured from the newest row. After the clock steps by more than
  an hour, no file is removed because of its age for 15 minutes.
- The size of `--keep` includes the queue: files that were removed because of their age and that ClickHouse does not have. Beyond it the oldest are
  removed from the queue as well; a message says how many, and from which time.
- While the disk is full, rows are kept in memory, up to four row groups of 8,192 rows per table. Beyond that the oldest are lost. As soon as there
  is space again, all that wait are written to the journal. Start
  and end of this state are reported; `hosts.rows_lost` has the number of rows lost, and so have, for an agent,
  `rocescope_recording_rows_lost_total` and `systemctl status`.
- A row group has the rows of a flow one after the other, which makes small files a sixth smaller; `replay` restores the order of
  time. Besides its rows a file of `flow_seconds` takes 4.0 kB, which the format requires: names, types and offsets of 48 columns, and
  the headers of their pages.
- A clock step of more than 2 s is reported and recorded in `hosts.clock_jump_ns`. Rows have the new time from then on; `interval_ns` is
  measured by a clock that does not step.
- Only changes have rows: a flow without packets, a counter that does not increase and a queue pair that does not change have none.
- RoCE that the NIC processes itself is in `qp_seconds` (its traffic and retries, from the kernel's list and the NIC's own context), `qp_lives` and
  `device_seconds`, and never in `flow_seconds`. Contexts are read in turns (`--qp-queries`), so that with many queue pairs a row covers
  several intervals. `replay` shows these queue pairs as `live` does, without what is not recorded: PSNs, flow labels, adaptive routing, the time that
  connecting took, counters bound to queue pairs, and samples of posted work.
- Counts are differences between two samples. Their sum over all rows is the figure of the report; a loss that later packets
  disprove gives a negative difference. If a flow leaves the flow table between two samples, its last interval is missing from
  `flow_seconds` (`hosts.unrecorded_packets`); `link_seconds` has its packets.
- The job of a row is that of the owning process (from Slurm's control group, or the name of the Kubernetes pod without its number or the five
  random characters at its end), else that of the recorder's environment: `SLURM_JOB_ID`; `K8S_JOB_NAME`, or in a pod `JOB_NAME`, as set by the
  downward API; `HOSTNAME` without `JOB_COMPLETION_INDEX` in a pod of an indexed Job. `--job` overrides both.
  Pods of Deployments and DaemonSets have such names as well and so are jobs; `--job` names them otherwise.
- Numbers are signed 64-bit integers, delta-encoded; only strings are dictionary-encoded; pages are compressed with LZ4; row groups have 8,192 rows.
  A row of `flow_seconds` takes 7 to 22 bytes, including its share of the file's footer (a minute of the demonstration: 21; captures with an
  interval of 10 ms: 16); in a file of a few hundred rows or fewer, column headers take more space than rows.

A recording has less data than a capture: no opcodes, no PSNs, no ECN bits of ACKs, one source port per flow, no bursts, and of latency
only the median, the 99th percentile and the maximum of each interval. Over several intervals `replay` estimates p50 and p99 from these
and gives the ranges that the true ones lie in (`flows[].latency_range_ns`): the more the intervals differ, the wider. The longest is
exact, with `--from` at most 12.5 % too long. Fields without data are null, also those inside `loss` (`rereads`, `rnr_resent`, episodes),
and views show a dash or *not recorded*; of a flow with both, `loss` has the sums of requests and responses. `flows[].last_ns` is the end
of the last interval of the flow, and with `--from` `first_ns` the beginning of its first. `source.recording` says that a report is of a
recording, and its interval. Findings are those that were raised during the recording; they are not evaluated again. `--filter` needs
packets and is rejected; `--view-filter` works.

## ClickHouse

`--clickhouse http://[USER:PASSWORD@]HOST:PORT/[?database=NAME]` creates the tables below, adds columns
that tables of an older version lack, and posts every file unchanged after it is sealed (`--rotate 1m` sends each minute). While the server is unreachable, files are queued in `<dir>/queue` (as hard links, which take no space
while the file exists) and are retried after 1 s to 60 s, also after the next start. A file that the server refuses (a status of 4xx, or an exception
of ClickHouse with one of 5xx) is reported once for each table and cause and stays in the queue; it is retried after 1 s to 60 s, after all files that were
never refused. A file's name is its `insert_deduplication_token`: a file
whose response was lost is not inserted twice while the table remembers its token (`non_replicated_deduplication_window`, or
`replicated_deduplication_window` and `replicated_deduplication_window_seconds` of a replicated table). Tables forget: before a file is sent a second time, and for
files that the previous run left, a `SELECT` asks the table for its first and last row and for their number, which takes the right to read it. Without that right a message says that the token
alone decides; [fleet.md](fleet.md#limits) has how long it does.
Inserts are synchronous, whatever the server's default is, and keep the order of the file (ClickHouse from 23.4). `https://` needs a build with the feature `tls`, which packages do not have:
there, use a trusted network or a proxy. The packaged service may connect to this host alone: [agent.md](agent.md) has the setting for another.

";

fn row(column: &Column) -> String {
    let kind = column.kind.name();
    let null = if column.nullable { ", null" } else { "" };
    let source = if column.source.is_empty() { String::new() } else { format!("`{}`", column.source) };
    format!("| `{}` | {kind}{null} | {} | {} | {source} |\n", column.name, column.unit, column.help)
}

#[test]
fn the_recording_page_is_made_from_the_registry() {
    let mut page = HEAD.to_owned();
    page += "```sql\n";
    page += &create_table(super::registry::LinkSecond::TABLE);
    page += ";\n```\n\nThe other tables are created in the same way.\n\n## Tables\n\n*Source* is the field of the [report](metrics.md) with the same figure; counts are its increase in the interval.\n";
    for table in TABLES {
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n### {}\n\n{}\n\n| column | type | unit | meaning | source |\n|---|---|---|---|---|\n",
            table.name, table.help
        );
        table.columns.iter().for_each(|column| page += &row(column));
    }
    document::check("recording.md", &page);
}

//! docs/recording.md, made from the registry.

use std::fmt::Write as _;

use super::clickhouse::create_table;
use super::registry::TABLES;
use super::table::{Column, Row as _};
use crate::analysis::fixtures::document;

const HEAD: &str = "\
# Recordings

<!-- Made from analyzer/src/record/registry.rs and document.rs: change these, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope recording_page -->

`rocescope record` watches interfaces as `live` does, with the same options of the source, and writes what it counts to Parquet
files, interval by interval. Every engine that reads Parquet reads them; `rocescope replay` plays them back.

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
<dir>/journal/<host>.<uuid>.journal        rows that are in no file yet
<dir>/queue/                               files that a ClickHouse does not have yet (--clickhouse)
```

- A file is written aside, synced and renamed: a reader of `*.parquet` sees whole files only. Files are never changed afterwards, so
  `rclone`, `aws s3 sync` or a shared mount can copy them. Folders are those of hive: an engine that is asked for an hour reads that hour.
- New files begin after `--rotate` (15 minutes, or 64 MiB for all tables together), and with each hour (UTC).
- The rows of every interval go to a journal first. After `kill -9` the next `record` in the same folder seals what it has: an
  interval that was being written is lost, no more. The journal is handed to the disk every 30 s: that much a power failure costs.
- `--keep` (7 days, 20 GiB) removes the oldest files of this host alone. Age counts from the newest row. After the clock steps by more than
  an hour nothing is removed for its age for a quarter of an hour.
- While the disk is full, rows wait in memory: four row groups of 8,192 rows per table. Beyond that the oldest are lost. Begin
  and end are reported; `hosts.rows_lost` has the number, and of an agent `rocescope_recording_rows_lost_total` and
  `systemctl status`.
- A row group has the rows of a flow one after the other, which makes small files a sixth smaller; `replay` puts them in the
  order of time. Beside its rows a file of `flow_seconds` takes 3.7 kB, which the format asks for: names, types and places of 46 columns,
  and the headers of their pages.
- A step of the clock of more than 2 s is reported, and `hosts.clock_jump_ns` has it. Rows have the new time from then on, and `interval_ns` is
  the time by a clock that does not step.
- Rows are of what happened: a flow without packets, a counter that stands still and a queue pair that does not change have none.
- Counts are differences between two readings. Sums over the rows are the figures of the report; a figure of loss that later packets
  correct gives a negative difference. Of a flow that leaves the flow table between two readings the last interval is missing
  (`hosts.unrecorded_packets`); `link_seconds` has its packets.
- The job of a row is that of the owning process (Slurm's control group, or the Kubernetes pod without its number), else `SLURM_JOB_ID`
  of the recorder's environment; `--job` replaces both.
- Numbers are signed integers of 64 bits, delta-encoded; texts have dictionaries; pages are compressed with LZ4; row groups have 8,192 rows.
  A row of `flow_seconds` takes 14 to 20 bytes, the file's footer included (a minute of the demonstration 20, captures read every
  10 ms 16); in a file of a few hundred rows and less the headers of its columns take more than the rows.

A recording has less than a capture: no opcodes, no PSNs, one source port per flow, and of latency the median, the 99th percentile and
the longest of each interval. `replay` shows what there is and leaves the rest empty. Findings are those that were raised while it was
recorded; they are not evaluated anew. `--filter` needs packets; `--view-filter` works.

## ClickHouse

`--clickhouse http://[USER:PASSWORD@]HOST:PORT/[?database=NAME]` makes the tables below, and posts every file as it is, after it
is sealed (`--rotate 1m` sends each minute). While the server is away, files wait in `<dir>/queue` (links, which take no space while the
file is kept) and are tried again after 1 s to 60 s, also after the next start. A file's name is its `insert_deduplication_token`: one
whose answer was lost is not inserted twice, as long as the table remembers its token (`non_replicated_deduplication_window`, or
`replicated_deduplication_window` of a replicated table). There is no TLS: use a trusted network or a proxy.

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
    page += ";\n```\n\nThe other tables are made alike.\n\n## Tables\n\n*Source* is the field of the [report](metrics.md) with the same figure; counts are its increase in the interval.\n";
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

-- What the selected rows are. Without --from, those of a clock that was not set are counted alone, and without --to those of one that is ahead.
select sum(of_reading) filter (where is_set = 1) as readings, sum(is_set) as all_rows, sum(of_flow) filter (where is_set = 1) as flow_readings,
       sum(of_bytes) filter (where is_set = 1) as byte_readings, count(distinct case when is_set = 1 then host end) as hosts,
       count(distinct case when is_set = 1 and of_flow = 1 then host end) as flow_hosts, count(distinct case when is_set = 1 then job end) as jobs,
       date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', min(t) filter (where is_set = 1))
         - argMin(length_ns, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) + case when of_reading = 1 then 0 else 5e-1 end) filter (where is_set = 1) / 1000000 as first_ms,
       date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t) filter (where is_set = 1)) as last_ms, sum(1 - is_set - is_ahead) as unset_rows, sum(is_ahead) as ahead_rows{hosts_of_jobs}
from (
  select *, case when {CLOCK_SET} then 1 else 0 end as is_set, case when {CLOCK_AHEAD} then 1 else 0 end as is_ahead
  from (
    select host, job, t, interval_ns as length_ns, 1 as of_reading, 1 as of_flow, 1 as of_bytes from flow_seconds where {rows_of_any_clock}
    union all
    select host, job, t, interval_ns as length_ns, 1 as of_reading, 0 as of_flow, case when counter in ('rx_bytes', 'tx_bytes') then 1 else 0 end as of_bytes
    from device_seconds
    where {rows_of_any_clock}
    union all
    select host, job, t, interval_ns as length_ns, 1 as of_reading, 0 as of_flow, 0 as of_bytes from qp_seconds where {rows_of_any_clock}{others}
  ) every_row
) clocked

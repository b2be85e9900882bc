select sum(of_reading) as readings, count(*) as all_rows, sum(of_flow) as flow_readings, sum(of_bytes) as byte_readings, count(distinct host) as hosts,
       count(distinct case when of_flow = 1 then host end) as flow_hosts, count(distinct job) as jobs,
       date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', min(t))
         - argMin(length_ns, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) + case when of_reading = 1 then 0 else 5e-1 end) / 1000000 as first_ms,
       date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as last_ms
from (
  select host, job, t, interval_ns as length_ns, 1 as of_reading, 1 as of_flow, 1 as of_bytes from flow_seconds where {rows}
  union all
  select host, job, t, interval_ns as length_ns, 1 as of_reading, 0 as of_flow, case when counter in ('rx_bytes', 'tx_bytes') then 1 else 0 end as of_bytes
  from device_seconds
  where {rows}
  union all
  select host, job, t, interval_ns as length_ns, 1 as of_reading, 0 as of_flow, 0 as of_bytes from qp_seconds where {rows}{others}
) every_row

select count(*) as readings, sum(of_flow) as flow_readings, count(distinct host) as hosts, count(distinct job) as jobs,
       date_diff('second', TIMESTAMP '1970-01-01 00:00:00', min(t)) as first_s,
       date_diff('second', TIMESTAMP '1970-01-01 00:00:00', max(t)) as last_s
from (
  select host, job, t, 1 as of_flow from flow_seconds where {rows}
  union all
  select host, job, t, 0 as of_flow from device_seconds where {rows}
) readings

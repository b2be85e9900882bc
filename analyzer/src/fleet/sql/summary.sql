select count(*) as readings, count(distinct host) as hosts, count(distinct job) as jobs,
       date_diff('second', TIMESTAMP '1970-01-01 00:00:00', min(t)) as first_s,
       date_diff('second', TIMESTAMP '1970-01-01 00:00:00', max(t)) as last_s
from flow_seconds
where {rows}

,
       (select max(job_hosts) from (select count(distinct host) as job_hosts from flow_seconds where {rows} and direction = 'egress' group by coalesce(job, '')) of_job) as most_hosts,
       (select count(distinct host) from steps where {rows}) as step_hosts

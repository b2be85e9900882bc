-- Hosts that other hosts of their job wait for.
with
seconds as (
  select coalesce(job, '') as job_name, host, t, sum(bytes) as sent
  from flow_seconds
  where {rows} and direction = 'egress'
  group by coalesce(job, ''), host, t
),
shares as (
  select *, sent / nullif(avg(sent) over (partition by job_name, host), 0) as share from seconds
),
phases as (
  select *, median(share) over (partition by job_name, t) as typical from shares
),
alone as (
  select job_name, host as straggler, sum(case when share >= 1 and typical < {QUIET} then 1 else 0 end) as late,
         sum(case when typical < {QUIET} then 1 else 0 end) as quiet
  from phases
  group by job_name, host
),
owners as (
  select case when direction = 'egress' then src else dst end as addr, min(host) as owner
  from flow_seconds
  where {rows} and direction is not null
  group by addr
),
named as (
  select coalesce(job, '') as job_name, coalesce(nullif(owner, ''), s.straggler) as straggler, count(distinct s.host) as voters,
         median(behind_ns) as behind, median(length_ns) as step
  from steps s left join owners o on s.straggler = o.addr
  where {rows} and s.straggler is not null
  group by coalesce(job, ''), coalesce(nullif(owner, ''), s.straggler)
),
waits as (
  select coalesce(job, '') as job_name, owner as straggler, sum(rnr_wait_ns) as rnr_wait
  from flow_seconds f join owners o on f.dst = o.addr
  where {rows} and rnr_wait_ns > 0
  group by coalesce(job, ''), owner
),
evidence as (
  select job_name, straggler, 0 as voters, 0 as behind, 0 as step, late, quiet, 0 as rnr_wait from alone
  union all
  select job_name, straggler, voters, behind, step, 0, 0, 0 from named
  union all
  select job_name, straggler, 0, 0, 0, 0, 0, rnr_wait from waits
),
sums as (
  select job_name, straggler, sum(voters) as named_by, nullif(sum(behind), 0) as behind_ns, nullif(sum(step), 0) as step_ns,
         sum(late) as late_seconds, sum(quiet) as quiet_seconds, sum(rnr_wait) as rnr_wait_ns
  from evidence
  group by job_name, straggler
),
shared as (
  select *, count(*) over (partition by job_name) as of_hosts from sums
)
select job_name, straggler, named_by, of_hosts, behind_ns, step_ns, late_seconds, quiet_seconds, rnr_wait_ns,
       greatest(named_by / of_hosts, case when late_seconds > {LATE} then late_seconds / quiet_seconds else 0 end) as share
from shared
where named_by > 0 or late_seconds > {LATE} or rnr_wait_ns > 0
order by share desc, named_by desc, late_seconds desc, rnr_wait_ns desc, job_name, straggler
limit 1000

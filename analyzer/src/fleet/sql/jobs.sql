-- Jobs by what they lose, wait and stall, against the median of the jobs.
with
traffic as (
  select coalesce(job, '') as job_name, count(distinct host) as host_count, sum(bytes) as all_bytes, sum(packets) as all_packets,
         sum(lost) as all_lost, sum(retransmitted) as all_retransmitted, sum(timeouts) as all_timeouts,
         sum(ce) / nullif(sum(ecn_capable), 0) as ce_ratio, sum(interval_ns) as flow_ns,
         sum(timeout_wait_ns) as stall_ns, sum(rnr_wait_ns) as wait_ns
  from flow_seconds
  where {rows}
  group by coalesce(job, '')
),
latest as (
  select coalesce(job, '') as job_name, host, link, direction, length_ns, busy_ns, start, step_bytes,
         row_number() over (partition by host, link, direction, start order by t desc) as version,
         row_number() over (partition by host, link, direction order by t desc, start desc) as age
  from steps
  where {rows}
),
-- Steps of a volume that was given up were segments found before the period was known.
volumes as (
  select *, max(case when age = 1 then step_bytes end) over (partition by host, link, direction) as volume from latest
),
ordered as (
  select job_name, length_ns, busy_ns,
         row_number() over (partition by job_name order by start) * 3 / count(*) over (partition by job_name) as third
  from volumes
  where version = 1 and length_ns > 0
    and (step_bytes is null or volume is null or step_bytes * 4 between volume * 3 and volume * 5)
),
pace as (
  select job_name, median(length_ns) as step_ns, median(busy_ns / length_ns) as network_ratio,
         median(case when third > 2 then length_ns end) / nullif(median(case when third <= 1 then length_ns end), 0) - 1 as growth
  from ordered
  group by job_name
),
joined as (
  select t.*, nullif(step_ns, 0) as step_ns, case when step_ns > 0 then network_ratio end as network_ratio,
         case when step_ns > 0 then growth end as growth
  from traffic t left join pace p on t.job_name = p.job_name
),
long as (
  select *, case problem when 'loss' then coalesce(nullif(all_lost, 0), all_retransmitted) / nullif(all_packets, 0)
                         when 'stalls' then stall_ns / nullif(flow_ns, 0)
                         when 'waits' then wait_ns / nullif(flow_ns, 0)
                         else growth end as figure
  from joined
  cross join (
    select 'loss' as problem, 0.000001 as least union all select 'stalls', 0.001
    union all select 'waits', 0.001 union all select 'step growth', 0.1
  ) problems
),
medians as (
  select *, case when count(*) over (partition by problem) > 2 then median(figure) over (partition by problem) else 0 end as usual from long
),
deviations as (
  select *, median(abs(figure - usual)) over (partition by problem) as mad, count(*) over (partition by problem) as jobs from medians
),
scored as (
  select *, (figure - usual) / ({DEVIATION} * greatest(case when jobs > 2 then mad else 0 end, {USUAL_SHARE} * usual, least / 5)) as z
  from deviations
),
worst as (
  select *, row_number() over (partition by job_name order by coalesce(z, -1) desc, problem) as place from scored
)
select job_name, problem, figure, usual, z, host_count, all_bytes, all_lost, all_retransmitted, all_timeouts, ce_ratio,
       stall_ns, wait_ns, step_ns, growth, network_ratio
from worst
where place = 1
order by coalesce(z, -1) desc, job_name
limit 1000

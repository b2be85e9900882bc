-- Hosts that other hosts of their job wait for.
with
-- What each host sent in each of its intervals. The hosts of a job are compared in slots as long as its usual interval.
sendings as (
  select *, median(long_ms) over (partition by job_name) as slot_ms, min(end_ms - long_ms) over (partition by job_name) as origin_ms
  from (
    select coalesce(job, '') as job_name, host, 1e0 * date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) as end_ms,
           1e0 * max(interval_ns) / 1000000 as long_ms, 1e0 * sum(bytes) as sent
    from flow_seconds
    where {rows} and direction = 'egress' and interval_ns > 0
    group by coalesce(job, ''), host, end_ms
  ) intervals
),
-- Intervals of different hosts begin at different times: of what a host sent in one, each slot has the share of the time that lies in it.
-- An interval much longer than the others says too little of a slot.
parts as (
  select job_name, host, slot, sum(sent * (least(end_ms, begin_ms + slot_ms) - greatest(end_ms - long_ms, begin_ms)) / long_ms) as part
  from (
    select *, origin_ms + slot * slot_ms as begin_ms
    from (
      select *, floor((end_ms - long_ms - origin_ms) / slot_ms) + nth as slot
      from sendings
      cross join (select 0 as nth union all select 1 union all select 2) nths
      where long_ms <= 2 * slot_ms
    ) numbered
  ) placed
  where begin_ms < end_ms
  group by job_name, host, slot
),
-- A host without a row between two others sent nothing. In a slot without a row of any host, all of them are quiet.
seconds as (
  select job_name, host, slot, sum(part) as sent
  from (
    select job_name, host, slot, part from parts
    union all
    select job_name, host, slot, 0e0 as part
    from (select job_name, host, min(slot) as from_slot, max(slot) as to_slot from parts group by job_name, host) spans
    join (select job_name as slot_job, slot from parts group by job_name, slot) slots on job_name = slot_job
    where slot >= from_slot and slot <= to_slot
  ) filled
  group by job_name, host, slot
),
shares as (
  select *, sent * (max(slot) over of_host - min(slot) over of_host + 1) / nullif(sum(sent) over of_host, 0) as share
  from seconds
  window of_host as (partition by job_name, host)
),
phases as (
  select *, median(share) over (partition by job_name, slot) as typical from shares
),
alone as (
  select job_name, host as straggler, sum(case when share >= 1 and typical < {QUIET} then 1 else 0 end) as late,
         max(slot) - min(slot) + 1 - sum(case when typical < {QUIET} then 0 else 1 end) as quiet
  from phases
  group by job_name, host
),
ways as (
  select host, link, direction, src, dst from flow_seconds where {rows} group by host, link, direction, src, dst
),
-- Addresses at the ends of what a link carries: its own by the direction, or from a capture the one that all of its flows have in
-- common. What only receives is a mirror port, and has none of its own.
sides as (
  select host, link, case way when 'to' then dst else src end as addr, sum(case when direction = 'egress' then 1 else 0 end) as sends,
         sum(case when direction = 'egress' and way = 'from' or direction = 'ingress' and way = 'to' then 1 else 0 end) as all_own,
         sum(case when direction is null then 1 else 0 end) as captured
  from ways
  cross join (select 'from' as way union all select 'to') ends
  group by host, link, addr
),
common as (
  select *, case when captured > 0 and captured * 2 = sum(captured) over (partition by host, link) then 1 else 0 end as is_common from sides
),
unique_ends as (
  select *, sum(is_common) over (partition by host, link) as commons,
         case when sum(sends) over (partition by host, link) > 0 then all_own else 0 end as own
  from common
),
owners as (
  select addr, min(host) as recorder, case when max(own) > 0 then min(case when own > 0 then host end) else addr end as owner
  from unique_ends
  where own > 0 or is_common = 1 and commons = 1
  group by addr
),
-- Of each step what was recorded last.
versions as (
  select coalesce(job, '') as job_name, host, straggler as late_addr, case when straggler_kind <> 'upstream' then 1 else 0 end as is_known,
         behind_ns as waited_ns, length_ns as whole_ns, step_bytes, link, direction,
         row_number() over (partition by host, link, direction, start order by t desc) as version,
         row_number() over (partition by host, link, direction order by t desc, start desc) as age
  from steps
  where {rows}
),
-- Steps of a volume that was given up were segments found before the period was known.
volumes as (
  select *, max(case when age = 1 then step_bytes end) over (partition by host, link, direction) as volume from versions
),
latest as (
  select *, count(*) over (partition by job_name, host) as host_steps
  from volumes
  where version = 1 and whole_ns > 0 and (step_bytes is null or volume is null or step_bytes * 4 between volume * 3 and volume * 5)
),
-- What a host says of itself is no other host's wait. `upstream` means only: that host, or one that it waits for.
votes as (
  select job_name, coalesce(nullif(owner, ''), late_addr) as late_host, l.host as voter, max(host_steps) as voter_steps, sum(is_known) as known_steps,
         sum(1 - is_known) as unsure_steps, median(case when is_known = 1 then waited_ns end) as voter_behind,
         median(case when is_known = 1 then whole_ns end) as voter_step
  from latest l left join owners o on l.late_addr = o.addr
  where late_addr is not null and coalesce(recorder, '') <> l.host
  group by job_name, coalesce(nullif(owner, ''), late_addr), l.host
),
named as (
  select job_name, late_host as straggler, sum(case when known_steps > 0 then 1 else 0 end) as voters,
         sum(case when unsure_steps > 0 then 1 else 0 end) as unsure, median(voter_behind) as behind, median(voter_step) as step,
         sum(known_steps) as in_steps, sum(case when known_steps > 0 then voter_steps else 0 end) as all_steps
  from votes
  group by job_name, late_host
),
-- A flow waits once, however many taps see it.
rnr as (
  select job_name, dst, max(waited) as flow_wait
  from (
    select coalesce(job, '') as job_name, host, link, direction, src, dst, dest_qp, sum(rnr_wait_ns) as waited
    from flow_seconds
    where {rows} and rnr_wait_ns > 0
    group by coalesce(job, ''), host, link, direction, src, dst, dest_qp
  ) taps
  group by job_name, src, dst, dest_qp
),
waits as (
  select job_name, coalesce(nullif(owner, ''), dst) as straggler, sum(flow_wait) as rnr_wait
  from rnr left join owners o on rnr.dst = o.addr
  group by job_name, coalesce(nullif(owner, ''), dst)
),
evidence as (
  select job_name, straggler, 0 as voters, 0 as unsure, 0 as behind, 0 as step, 0 as in_steps, 0 as all_steps, late, quiet, 0 as rnr_wait from alone
  union all
  select job_name, straggler, voters, unsure, coalesce(behind, 0), coalesce(step, 0), in_steps, all_steps, 0, 0, 0 from named
  union all
  select job_name, straggler, 0, 0, 0, 0, 0, 0, 0, 0, rnr_wait from waits
),
sums as (
  select job_name, straggler, sum(voters) as named_by, sum(unsure) as upstream_of, nullif(sum(behind), 0) as behind_ns, nullif(sum(step), 0) as step_ns,
         sum(in_steps) / nullif(sum(all_steps), 0) as step_ratio, sum(late) as late_seconds, sum(quiet) as quiet_seconds, sum(rnr_wait) as rnr_wait_ns
  from evidence
  group by job_name, straggler
),
-- What only receives is no host of the job.
recorders as (
  select job_of, sum(is_member) as recording_hosts
  from (
    select coalesce(job, '') as job_of, host, max(case when coalesce(direction, 'egress') = 'egress' then 1 else 0 end) as is_member
    from flow_seconds
    where {rows}
    group by coalesce(job, ''), host
  ) hosts
  group by job_of
),
selves as (
  select owner, count(*) as selves from owners group by owner
),
shared as (
  select s.*, greatest(1, recording_hosts - case when coalesce(selves, 0) > 0 then 1 else 0 end) as of_hosts
  from sums s left join recorders r on s.job_name = r.job_of left join selves o on s.straggler = o.owner
)
select job_name, straggler, named_by, of_hosts, behind_ns, step_ns, step_ratio, late_seconds, quiet_seconds, rnr_wait_ns, upstream_of,
       greatest(named_by / of_hosts, case when late_seconds > {LATE} then late_seconds / quiet_seconds else 0 end) as share
from shared
where named_by > 0 or late_seconds > {LATE} or rnr_wait_ns > 0 or upstream_of > 0
order by share desc, named_by desc, late_seconds desc, rnr_wait_ns desc, upstream_of desc, job_name, straggler
limit 1000

-- Jobs by what they lose, mark, wait and stall, against the median of the jobs.
with
-- Each tap of a flow. Retransmissions after RNR NAKs replace no lost packet.
seen as (
  select coalesce(job, '') as job_name, host, link, direction, src, dst, dest_qp, sum(1e0 * bytes) as tap_bytes, sum(packets) as tap_all,
         sum(case when lost is not null then packets end) as tap_packets, sum(lost) as tap_lost, sum(retransmitted) as tap_retransmitted,
         sum(case when coalesce(rnr_wait_ns, 0) = 0 then retransmitted end) as tap_resent, sum(timeouts) as tap_timeouts,
         sum(ce) as tap_ce, sum(ecn_capable) as tap_capable, sum(timeout_wait_ns) as tap_stall_ns,
         sum(rnr_wait_ns) as tap_wait_ns, sum(messages) + coalesce(sum(message_bytes), 0) as tap_requests,
         date_diff('microsecond', TIMESTAMP '1970-01-01 00:00:00', min(t)) - max(interval_ns) / 1000 as begin_us,
         date_diff('microsecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as end_us
  from flow_seconds
  where {rows}
  group by coalesce(job, ''), host, link, direction, src, dst, dest_qp
),
-- The tap at the sender sees the silences of the sender as they are: egress, or in captures the one that saw most and waited least.
numbered as (
  select *, dense_rank() over (partition by job_name order by host) as host_number,
         row_number() over (partition by job_name, src, dst, dest_qp order by case when direction = 'egress' then 0 else 1 end, tap_all desc,
                            coalesce(tap_stall_ns, 0) + coalesce(tap_wait_ns, 0), host, link) as from_sender
  from seen
),
-- A packet passes several taps, and counts once. What is lost on the path is lost after a tap at the sender: egress, or the
-- only tap of a capture, which has no direction.
flows as (
  select job_name, src, dst, dest_qp, max(host_number) as hosts_to, max(tap_bytes) as flow_bytes, max(tap_packets) as flow_packets,
         max(tap_lost) as flow_lost, max(tap_retransmitted) as flow_retransmitted, max(tap_resent) as flow_resent,
         max(case when from_sender = 1 then tap_timeouts end) as flow_timeouts, max(tap_ce) as flow_ce, argMax(tap_capable, tap_ce) as flow_capable,
         max(case when from_sender = 1 then tap_stall_ns end) as flow_stall_ns, max(case when from_sender = 1 then tap_wait_ns end) as flow_wait_ns,
         max(case when tap_requests > 0 or tap_stall_ns > 0 or tap_wait_ns > 0 then 1 else 0 end) as has_requests,
         min(begin_us) as first_us, max(end_us) as last_us,
         max(case when direction = 'ingress' and tap_lost is not null then 1 else 0 end) as ingress_taps,
         case when count(tap_lost) > 1 then max(case when direction is null then 1 else 0 end) else 0 end as later_taps
  from numbered
  group by job_name, src, dst, dest_qp
),
pairs as (
  select job_name, max(hosts_to) as pair_hosts, sum(flow_bytes) as pair_bytes, sum(flow_packets) as pair_packets, sum(flow_lost) as pair_lost,
         sum(flow_retransmitted) as pair_retransmitted, coalesce(sum(flow_resent), 0) as pair_resent, sum(flow_timeouts) as pair_timeouts,
         sum(flow_ce) as pair_ce, sum(flow_capable) as pair_capable, sum(has_requests) as pair_flows, min(first_us) as pair_first_us,
         max(last_us) as pair_last_us, sum(flow_stall_ns) as pair_stall_ns,
         sum(flow_wait_ns) as pair_wait_ns,
         case when sum(flow_lost) > 0 or max(ingress_taps) + max(later_taps) > 0 then 1 else 0 end as is_known
  from flows
  group by job_name, src, dst
),
traffic as (
  select job_name, max(pair_hosts) as host_count, sum(pair_bytes) as all_bytes, sum(case when is_known = 1 then pair_lost end) as all_lost,
         sum(pair_retransmitted) as all_retransmitted, sum(pair_timeouts) as all_timeouts,
         sum(case when is_known = 1 then pair_lost end) / nullif(sum(case when is_known = 1 then pair_packets end), 0) as loss_ratio,
         sum(case when is_known = 0 then pair_resent end) / nullif(sum(case when is_known = 0 then pair_packets end), 0) as resent_ratio,
         sum(pair_ce) / nullif(sum(pair_capable), 0) as ce_ratio, sum(pair_stall_ns) as stall_ns, sum(pair_wait_ns) as wait_ns,
         sum(pair_flows) * (max(pair_last_us) - min(pair_first_us)) * 1000 as flow_ns
  from pairs
  group by job_name
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
-- NICs that process RoCE show no packets, but the context of each queue pair. A likely timeout is counted at each suspect.
contexts as (
  select coalesce(job, '') as job_name, host, device, lqpn, sum(case when attribution = 'certain' then timeouts end) as each_timeouts,
         sum(retrying_readings) as each_retrying, sum(case when retrying_readings is not null then readings end) as each_readings,
         sum(rnr_retrying_readings) as each_rnr_retrying, sum(case when rnr_retrying_readings is not null then readings end) as each_rnr_readings,
         max(stuck_ns) as each_stuck_ns
  from qp_seconds
  where {rows}
  group by coalesce(job, ''), host, device, lqpn
),
qps as (
  select job_name, count(distinct host) as qp_hosts, count(*) as qp_count, sum(each_timeouts) as qp_timeouts,
         case when sum(each_retrying) >= {RETRYING_READINGS} then sum(each_retrying) else 0 end / nullif(sum(each_readings), 0) as retry_ratio,
         case when sum(each_rnr_retrying) >= {RETRYING_READINGS} then sum(each_rnr_retrying) else 0 end / nullif(sum(each_rnr_readings), 0) as rnr_retry_ratio,
         sum(case when each_stuck_ns is not null then case when each_stuck_ns >= {STUCK_NS} then 1 else 0 end end) as stuck_count
  from contexts
  group by job_name
),
-- A queue pair has a row whenever it changes: one whose control path is followed and that has no row did not die. The row of a death is
-- written again when the queue pair is destroyed, and counts when it is first there.
lives as (
  select job_name, count(distinct case when is_in_range = 1 then host end) as life_hosts, sum(is_in_range) as life_count,
         sum(case when is_followed = 1 then case when {first_in_range} then 1 else 0 end end) as dead_count
  from (
    select coalesce(job, '') as job_name, host, device, lqpn, created, max(case when {rows} then 1 else 0 end) as is_in_range,
           max(case when {END_KNOWN} then 1 else 0 end) as is_followed, min(case when end_kind = 'error' then t end) as first_t
    from qp_lives
    where {rows_until}
    group by coalesce(job, ''), host, device, lqpn, created
  ) each_life
  group by job_name
),
names as (
  select job_name from (select job_name from traffic union all select job_name from qps union all select job_name from lives where life_count > 0) every_job group by job_name
),
joined as (
  select n.job_name as job_name, greatest(coalesce(t.host_count, 0), coalesce(q.qp_hosts, 0), coalesce(l.life_hosts, 0)) as host_count, nullif(t.all_bytes, 0) as all_bytes, all_lost,
         all_retransmitted, case when t.all_timeouts is not null or q.qp_timeouts is not null then coalesce(t.all_timeouts, 0) + coalesce(q.qp_timeouts, 0) end as all_timeouts, loss_ratio, resent_ratio, ce_ratio, stall_ns, wait_ns,
         nullif(flow_ns, 0) as flow_ns, retry_ratio, rnr_retry_ratio, stuck_count, stuck_count / nullif(q.qp_count, 0) as stuck_ratio,
         dead_count as died_count, dead_count / nullif(greatest(coalesce(l.life_count, 0), coalesce(q.qp_count, 0)), 0) as died_ratio,
         nullif(step_ns, 0) as step_ns, case when step_ns > 0 then network_ratio end as network_ratio,
         case when step_ns > 0 then growth end as growth
  from names n left join traffic t on n.job_name = t.job_name left join qps q on n.job_name = q.job_name left join lives l on n.job_name = l.job_name left join pace p on n.job_name = p.job_name
),
long as (
  select *, case problem when 'loss' then loss_ratio
                         when 'retransmission' then resent_ratio
                         when 'CE' then ce_ratio
                         when 'stalls' then stall_ns / flow_ns
                         when 'waits' then wait_ns / flow_ns
                         when 'retries (QP)' then retry_ratio
                         when 'RNR retries (QP)' then rnr_retry_ratio
                         when 'stuck (QP)' then stuck_ratio
                         when 'deaths (QP)' then died_ratio
                         else growth end as figure
  from joined
  cross join (
    select 'loss' as problem, {JOB_LOSS} as least union all select 'retransmission', {JOB_LOSS} union all select 'CE', {CE}
    union all select 'stalls', {JOB_WAIT} union all select 'waits', {JOB_WAIT} union all select 'step growth', {JOB_GROWTH}
    union all select 'retries (QP)', {JOB_RETRYING} union all select 'RNR retries (QP)', {JOB_RETRYING}
    union all select 'stuck (QP)', {TROUBLED_QPS} union all select 'deaths (QP)', {TROUBLED_QPS}
  ) problems
),
-- The median of one or two jobs says nothing about either.
medians as (
  select *, case when count(figure) over (partition by problem) > 2 then median(figure) over (partition by problem) end as usual from long
),
deviations as (
  select *, median(abs(figure - usual)) over (partition by problem) as mad from medians
),
scored as (
  select *, (figure - coalesce(usual, 0)) / greatest({DEVIATION} * coalesce(mad, 0), {DEVIATION} * {USUAL_SHARE} * coalesce(usual, 0), least / {STANDS_OUT}) as z
  from deviations
),
-- A queue pair that died ends its job, whatever else there is.
worst as (
  select *, case when problem = 'deaths (QP)' and z >= {STANDS_OUT} then 0 else 1 end as turn,
         row_number() over (partition by job_name order by case when problem = 'deaths (QP)' and z >= {STANDS_OUT} then 0 else 1 end, coalesce(z, -1) desc, problem) as place
  from scored
)
select job_name, problem, figure, usual, z, host_count, all_bytes, all_lost, all_retransmitted, all_timeouts, ce_ratio,
       stall_ns, wait_ns, step_ns, growth, network_ratio, died_count as qps_died, stuck_count as qps_stuck
from worst
where place = 1
order by turn, coalesce(z, -1) desc, job_name
limit 1000

-- What happened when: sums over all flows in at most 60 slots of whole intervals, and what stands out in each.
with
bounds as (
  select begin_ms, end_ms, step_ms * greatest(1, ceil((end_ms - begin_ms) / 60 / step_ms)) as width_ms
  from (
    select date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', min(t)) - max(interval_ns) / 1000000 as begin_ms,
           date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as end_ms, greatest(1, max(interval_ns) / 1000000) as step_ms
    from flow_seconds
    where {rows}
  ) recorded
),
-- Each tap of a flow. An interval is in the slot of its middle.
taps as (
  select floor((date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 2000000 - begin_ms) / width_ms) as slot, host, link, direction, src, dst, dest_qp,
         sum(bytes) as tap_bytes, sum(case when lost is not null then packets end) as tap_packets, sum(ecn_capable) as tap_capable, sum(ce) as tap_ce,
         sum(lost) as tap_lost, sum(retransmitted) as tap_retransmitted, sum(timeouts) as tap_timeouts, sum(rtt_sum_ns) as tap_rtt, sum(rtt_count) as tap_rtts
  from flow_seconds cross join bounds
  where {rows}
  group by slot, host, link, direction, src, dst, dest_qp
),
-- A packet passes several taps, perhaps in different slots, and counts once: at the tap of its flow that saw most of these packets in all slots.
whole as (
  select *, sum(tap_bytes) over each_tap as whole_bytes, sum(tap_lost) over each_tap as whole_lost, sum(tap_ce) over each_tap as whole_ce,
         sum(tap_retransmitted) over each_tap as whole_retransmitted
  from taps
  window each_tap as (partition by host, link, direction, src, dst, dest_qp)
),
ranked as (
  select *, dense_rank() over (partition by src, dst, dest_qp order by case when direction = 'egress' then 0 else 1 end,
                                 coalesce(whole_retransmitted, 0) desc, whole_bytes desc, host, link, direction) as from_sender,
         dense_rank() over (partition by src, dst, dest_qp order by coalesce(whole_lost, 0) + whole_ce desc, host, link, direction) as from_receiver
  from whole
),
-- Of a host, what its taps saw. Of a flow, what one tap did.
parts as (
  select slot, grouping(host) as is_flow, max(host) as any_host,
         max(case when tap_lost > 0 or direction = 'ingress' and tap_lost is not null then 1 else 0 end) as after_path,
         case when count(tap_lost) > 1 then max(case when direction is null then 1 else 0 end) else 0 end as later_tap,
         sum(tap_bytes) as sum_bytes, max(case when from_sender = 1 then tap_bytes end) as top_bytes,
         sum(tap_packets) as sum_packets, max(case when from_sender = 1 then tap_packets end) as top_packets,
         sum(tap_capable) as sum_capable, max(case when from_receiver = 1 then tap_capable end) as top_capable,
         sum(tap_ce) as sum_ce, max(case when from_receiver = 1 then tap_ce end) as top_ce,
         sum(tap_lost) as sum_lost, max(case when from_receiver = 1 then tap_lost end) as top_lost,
         sum(tap_retransmitted) as sum_retransmitted, max(case when from_sender = 1 then tap_retransmitted end) as top_retransmitted,
         sum(tap_timeouts) as sum_timeouts, max(case when from_sender = 1 then tap_timeouts end) as top_timeouts,
         sum(tap_rtt) as sum_rtt, max(case when from_sender = 1 then tap_rtt end) as top_rtt,
         sum(tap_rtts) as sum_rtts, max(case when from_sender = 1 then tap_rtts end) as top_rtts
  from ranked
  group by grouping sets ((slot, host), (slot, src, dst, dest_qp))
),
-- A row of each host, and one of all flows, without a host.
places as (
  select slot, case when is_flow = 1 then '' else any_host end as place, max(is_flow * greatest(after_path, later_tap)) as is_after,
         sum(case when is_flow = 1 then top_bytes else sum_bytes end) as all_bytes, sum(case when is_flow = 1 then top_packets else sum_packets end) as all_packets,
         sum(case when is_flow = 1 then top_capable else sum_capable end) as all_capable, sum(case when is_flow = 1 then top_ce else sum_ce end) as all_ce,
         sum(case when is_flow = 1 then top_lost else sum_lost end) as all_lost,
         sum(case when is_flow = 1 then top_retransmitted else sum_retransmitted end) as all_retransmitted,
         sum(case when is_flow = 1 then top_timeouts else sum_timeouts end) as all_timeouts,
         sum(case when is_flow = 1 then top_rtt else sum_rtt end) as all_rtt, sum(case when is_flow = 1 then top_rtts else sum_rtts end) as all_rtts
  from parts
  group by slot, place
),
-- Where no tap is after the path of a flow, nobody sees what is lost there. The first and the last slot may be recorded in part.
known as (
  select p.*, max(is_after) over () as is_known, least(width_ms, end_ms - begin_ms - slot * width_ms) as length_ms
  from places p cross join bounds
),
long as (
  select slot, place, metric, least, all_packets, length_ms,
         case metric when 'latency' then all_rtt when 'CE' then all_ce when 'loss' then case when is_known = 1 then all_lost end
                     when 'retransmission' then all_retransmitted when 'timeouts' then all_timeouts else all_bytes end as num,
         case metric when 'latency' then 1.0 * all_rtts when 'CE' then 1.0 * all_capable when 'traffic' then length_ms / 1000 else 1.0 end as den
  from known
  cross join (
    select 'latency' as metric, {LATENCY_NS} as least union all select 'CE', {CE} union all select 'loss', {COUNTED}
    union all select 'retransmission', {COUNTED} union all select 'timeouts', {COUNTED} union all select 'traffic', {TRAFFIC}
  ) metrics
),
tops as (
  select *, row_number() over (partition by slot, metric order by case when place = '' then 1 else 0 end, coalesce(num / nullif(den, 0), -1) desc, place) as rank
  from long
),
slots as (
  select slot, metric, max(least) as least_of, max(length_ms) as slot_ms, max(case when place = '' then all_packets end) as all_of,
         max(case when place = '' then num end) as all_num, max(case when place = '' then num / nullif(den, 0) end) as figure,
         max(case when rank = 1 then place end) as top_host, max(case when rank = 1 then num end) as top_num
  from tops
  group by slot, metric
),
medians as (
  select *, median(figure) over (partition by metric) as usual from slots
),
deviations as (
  select *, median(abs(figure - usual)) over (partition by metric) as mad from medians
),
scored as (
  select *, case when metric = 'traffic' then usual - figure else figure - usual end
            / greatest({DEVIATION} * mad, {DEVIATION} * {USUAL_SHARE} * usual, least_of / {STANDS_OUT}) as z
  from deviations
),
worst as (
  select *, row_number() over (partition by slot order by coalesce(z, -1) desc, metric) as rank from scored
),
wide as (
  select slot, max(slot_ms) as length_ms, sum(case when metric = 'traffic' then figure end) as bytes_per_s,
         sum(case when metric = 'loss' then all_num end) as lost_packets,
         sum(case when metric = 'loss' then all_num end) / nullif(max(all_of), 0) as loss_ratio,
         sum(case when metric = 'retransmission' then all_num end) as retransmitted_packets,
         sum(case when metric = 'timeouts' then all_num end) as timeout_count,
         max(case when metric = 'CE' then figure end) as ce_ratio, max(case when metric = 'latency' then figure end) as latency_ns,
         max(case when rank = 1 and z > {STANDS_OUT} then metric end) as worst_metric, max(case when rank = 1 then z end) as worst_z,
         max(case when rank = 1 and z > {STANDS_OUT} then figure end) as worst_figure, max(case when rank = 1 and z > {STANDS_OUT} then usual end) as worst_usual,
         max(case when rank = 1 and z > {STANDS_OUT} and metric <> 'traffic' then top_host end) as worst_host
  from worst
  group by slot
)
select (begin_ms + slot * width_ms) / 1000 as unix_s, length_ms * 1000000 as slot_ns, width_ms * 1000000 as whole_slot_ns, bytes_per_s, lost_packets,
       loss_ratio, retransmitted_packets, timeout_count, ce_ratio, latency_ns, worst_metric, worst_z, worst_figure, worst_usual, worst_host
from wide cross join bounds
order by unix_s
limit 1000

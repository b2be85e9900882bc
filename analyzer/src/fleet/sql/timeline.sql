-- What happened when: sums of all hosts in at most 60 intervals, and what stands out in each.
with
bounds as (
  select min(t) as first_t, greatest(1, ceil(date_diff('second', min(t), max(t)) / 60)) as width
  from flow_seconds
  where {rows}
),
seconds as (
  select floor(date_diff('second', first_t, t) / width) as slot, host, sum(bytes) as all_bytes, sum(packets) as all_packets,
         sum(ecn_capable) as all_capable, sum(ce) as all_ce, sum(lost) as all_lost, sum(retransmitted) as all_retransmitted,
         sum(timeouts) as all_timeouts, sum(rtt_sum_ns) as all_rtt, sum(rtt_count) as all_rtts
  from flow_seconds cross join bounds
  where {rows}
  group by slot, host
),
long as (
  select slot, host, metric, least, all_packets,
         case metric when 'latency' then all_rtt when 'CE' then all_ce when 'loss' then all_lost
                     when 'retransmission' then all_retransmitted when 'timeouts' then all_timeouts else all_bytes end as num,
         case metric when 'latency' then all_rtts when 'CE' then all_capable end as den
  from seconds
  cross join (
    select 'latency' as metric, 1000.0 as least union all select 'CE', 0.005 union all select 'loss', 5.0
    union all select 'retransmission', 5.0 union all select 'timeouts', 5.0 union all select 'traffic', 1000000.0
  ) metrics
),
tops as (
  select *, row_number() over (partition by slot, metric order by coalesce(num / nullif(den, 0), num / 1, -1) desc, host) as place from long
),
slots as (
  select slot, metric, sum(all_packets) as all_of, max(least) as least_of, sum(num) as all_num, coalesce(sum(num) / nullif(sum(den), 0), sum(num) / 1) as figure,
         max(case when place = 1 then host end) as top_host, max(case when place = 1 then num end) / nullif(sum(num), 0) as top_share
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
            / ({DEVIATION} * greatest(mad, {USUAL_SHARE} * usual, least_of / 5)) as z
  from deviations
),
worst as (
  select *, row_number() over (partition by slot order by coalesce(z, -1) desc, metric) as place from scored
),
wide as (
  select slot, sum(case when metric = 'traffic' then all_num end) as carried,
         sum(case when metric = 'loss' then all_num end) as lost_packets, sum(case when metric = 'loss' then all_num end) / nullif(max(all_of), 0) as loss_ratio,
         sum(case when metric = 'retransmission' then all_num end) as retransmitted_packets,
         sum(case when metric = 'timeouts' then all_num end) as timeout_count,
         max(case when metric = 'CE' then figure end) as ce_ratio, max(case when metric = 'latency' then figure end) as latency_ns,
         max(case when place = 1 and z > {STANDS_OUT} then metric end) as worst_metric, max(case when place = 1 then z end) as worst_z,
         max(case when place = 1 and z > {STANDS_OUT} then figure end) as worst_figure, max(case when place = 1 and z > {STANDS_OUT} then usual end) as worst_usual,
         max(case when place = 1 and z > {STANDS_OUT} then top_host end) as worst_host, max(case when place = 1 and z > {STANDS_OUT} then top_share end) as worst_share
  from worst
  group by slot
)
select date_diff('second', TIMESTAMP '1970-01-01 00:00:00', first_t) + slot * width as unix_s, width as seconds, carried / width as bytes_per_s, lost_packets,
       loss_ratio, retransmitted_packets, timeout_count, ce_ratio, latency_ns, worst_metric, worst_z, worst_figure, worst_usual, worst_host, worst_share
from wide cross join bounds
order by unix_s
limit 1000

-- Pairs of ports whose figures exceed the median of their job, and the hops that they have in common.
with
pairs as (
  select job, coalesce(rail, link) as lane, direction, src, dst,
         median(rtt_p99_ns) as latency, sum(packets) as all_packets, sum(ecn_capable) as all_capable, sum(ce) as all_ce,
         sum(retransmitted) as all_retransmitted, count(*) as readings
  from flow_seconds
  where {rows}
  group by job, coalesce(rail, link), direction, src, dst
),
figures as (
  select metric, job, lane, direction, src, dst, readings, figure, least, 1.0 as weight
  from (
    select *, case metric when 'latency' then latency
                          when 'CE' then all_ce / nullif(all_capable, 0)
                          else all_retransmitted / nullif(all_packets, 0) end as figure
    from pairs
    cross join (
      select 'latency' as metric, 1000.0 as least union all select 'CE', 0.005 union all select 'retransmission', 0.0001
    ) metrics
  ) long
  where figure is not null
),

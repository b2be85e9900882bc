-- Pairs of ports that lose packets, and the hops that they have in common.
with
pairs as (
  select job, min(coalesce(rail, link)) as lane, src, dst, coalesce(sum(lost), sum(retransmitted), 0) as all_lost,
         greatest(sum(case when direction = 'egress' then packets else 0 end),
                  sum(case when direction = 'egress' then 0 else packets end)) as all_packets, count(*) as readings
  from flow_seconds
  where {rows}
  group by job, src, dst
),
figures as (
  select 'loss' as metric, job, lane, 'both' as direction, src, dst, readings, all_lost / all_packets as figure,
         0.00001 as least, all_lost as weight
  from pairs
  where all_packets > 0
),

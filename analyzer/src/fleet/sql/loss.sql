-- Pairs of ports that lose packets, and the hops that they have in common.
with
pairs as (
  select job, min(coalesce(rail, link)) as lane, src, dst, coalesce(nullif(sum(lost), 0), sum(retransmitted), 0) as all_lost,
         greatest(sum(case when direction = 'egress' then packets else 0 end),
                  sum(case when direction = 'egress' then 0 else packets end)) as all_packets, count(*) as readings
  from flow_seconds
  where {rows}
  group by job, src, dst
),
devices as (
  select job, host, device, max(netdev) as port_of, count(*) as readings,
         sum(case when counter = 'rx_packets' then delta end) as rx, sum(case when counter = 'tx_packets' then delta end) as tx,
         sum(case when counter = 'out_of_sequence' then delta end) as disordered,
         sum(case when counter = 'local_ack_timeouts' then delta end) as expired
  from device_seconds
  where {rows}
  group by job, host, device
),
figures as (
  select 'loss' as metric, job, nullif(src, src) as box, lane, 'both' as direction, src, dst, readings,
         all_lost / all_packets as figure, 0.00001 as least, 1.0 * all_lost as weight
  from pairs
  where all_packets > 0
  union all
  select metric, job, host as box, coalesce(port_of, device) as lane, 'device' as direction, host || ' ' || device as src,
         host || ' ' || device as dst, readings, figure, least, 1.0 as weight
  from (
    select *, case metric when 'out of sequence (device)' then coalesce(disordered, 0) / nullif(rx, 0)
                          else coalesce(expired, 0) / nullif(tx, 0) end as figure
    from devices
    cross join (select 'out of sequence (device)' as metric, 0.00001 as least union all select 'timeouts (device)', 0.000001) metrics
  ) long
  where figure is not null
),

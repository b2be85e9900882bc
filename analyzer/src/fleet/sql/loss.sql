-- Pairs of ports that lose packets, and the hops that they have in common.
with
-- Each tap of a flow. Retransmissions after RNR NAKs replace no lost packet.
seen as (
  select job, host, link, direction, min(coalesce(rail, case when direction is not null then link end)) as lane, src, dst, dest_qp,
         sum(case when lost is not null then packets end) as tap_packets, sum(lost) as tap_lost,
         sum(case when coalesce(rnr_wait_ns, 0) = 0 then retransmitted end) as tap_resent, sum(timeouts) as tap_timeouts, count(*) as tap_readings
  from flow_seconds
  where {rows}
  group by job, host, link, direction, src, dst, dest_qp
),
-- A packet passes several taps, and counts once. What is lost on the path is lost after a tap at the sender: egress, or the
-- only tap of a capture, which has no direction.
flows as (
  select job, min(lane) as flow_lane, src, dst, dest_qp, max(tap_packets) as flow_packets, max(tap_lost) as flow_lost,
         max(tap_resent) as flow_resent, max(tap_timeouts) as flow_timeouts, sum(tap_readings) as flow_readings,
         max(case when direction = 'ingress' then 1 else 0 end) as ingress_taps,
         case when count(*) > 1 then max(case when direction is null then 1 else 0 end) else 0 end as later_taps
  from seen
  where tap_lost is not null
  group by job, src, dst, dest_qp
),
pairs as (
  select job, min(flow_lane) as lane, src, dst, sum(flow_packets) as all_packets, sum(flow_lost) as all_lost,
         coalesce(sum(flow_resent), 0) as all_resent, case when sum(flow_timeouts) > 0 then 1 else 0 end as has_timeouts, sum(flow_readings) as readings,
         case when sum(flow_lost) > 0 or max(ingress_taps) + max(later_taps) > 0 then 1 else 0 end as is_known
  from flows
  group by job, src, dst
),
{qps}{device_counters}devices as (
  select job, host, device, max(any_netdev) as port_of, sum(row_count) as readings,
         sum(case when counter = 'rx_packets' then total end) as rx, sum(case when counter = 'tx_packets' then total end) as tx,
         sum(case when counter = 'out_of_sequence' then total end) as disordered,
         sum(case when counter = 'local_ack_timeouts' then total end) as expired
  from device_counters
  group by job, host, device
),
figures as (
  select case when is_known = 1 then 'loss' else 'retransmitted' end as metric, job, nullif(src, src) as box, lane,
         'both' as direction, src, dst, readings, case when is_known = 1 then all_lost else all_resent end / all_packets as figure,
         {LOSS} as least, is_known * has_timeouts as bounded, 1.0 * case when is_known = 1 then all_lost else all_resent end as weight
  from pairs
  where all_packets > 0
  union all
  select metric, job, host as box, coalesce(port_of, device) as lane, 'device' as direction, host || ' ' || device as src,
         host || ' ' || device as dst, readings, figure, least, 0 as bounded, 1.0 as weight
  from (
    select *, case metric when 'out of sequence (device)' then coalesce(disordered, 0) / nullif(rx, 0)
                          else coalesce(expired, 0) / nullif(tx, 0) end as figure
    from devices
    cross join (select 'out of sequence (device)' as metric, {LOSS} as least union all select 'timeouts (device)', {DEVICE_TIMEOUTS}) metrics
  ) long
  where figure is not null
  union all
  select metric, job, nullif(src, src) as box, lane, 'queue pair' as direction, src, dst, qp_rows as readings, figure, least, 0 as bounded,
         1.0 * greatest(1, case metric when 'retries (QP)' then coalesce(qp_retrying, 0) else coalesce(qp_resent, 0) end) as weight
  from (
    select *, case metric when 'retries (QP)' then case when qp_retrying >= {RETRYING_READINGS} then qp_retrying else 0 end / nullif(qp_contexts, 0)
                          else coalesce(qp_resent, 0) / nullif(qp_sent, 0) end as figure
    from qps
    cross join (
      select 'retries (QP)' as metric, {RETRYING} as least union all select 'timeouts and sequence errors (QP)', {DEVICE_TIMEOUTS}
    ) metrics
  ) of_qps
  where figure is not null
),

-- Pairs of ports whose figures exceed the median of their job, and the hops that they have in common.
with
-- Of captures, which have no direction, each tap by itself: two of them may see the same packets.
pair_taps as (
  select job, coalesce(rail, case when direction is not null then link end) as lane, direction,
         case when direction is null then host end as at_host, case when direction is null then link end as at_link, src, dst,
         median(rtt_p99_ns) as tap_latency, sum(packets) as tap_packets, sum(ecn_capable) as tap_capable, sum(ce) as tap_ce,
         sum(retransmitted) as tap_retransmitted, count(*) as tap_readings
  from flow_seconds
  where {rows}
  group by job, coalesce(rail, case when direction is not null then link end), direction,
           case when direction is null then host end, case when direction is null then link end, src, dst
),
pairs as (
  select job, lane, direction, src, dst, max(tap_latency) as latency,
         argMax(tap_packets, tap_retransmitted) as all_packets, max(tap_retransmitted) as all_retransmitted,
         argMax(tap_capable, tap_ce) as all_capable, max(tap_ce) as all_ce, sum(tap_readings) as readings
  from pair_taps
  group by job, lane, direction, src, dst
),
{qps}{device_counters}-- A counter that stands still has no row: the time is that in which the host has rows.
devices as (
  select *, 1000000 * (max(last_ms) over (partition by job, host) - min(first_ms) over (partition by job, host)) as span
  from (
    select job, host, device, max(any_netdev) as port_of, sum(row_count) as readings,
           sum(case when counter = 'rx_packets' then total end) as rx, sum(case when counter = 'tx_packets' then total end) as tx,
           sum(case when counter = 'ce_marked_packets' then total end) as marked,
           sum(case when counter = 'retransmissions' then total end) as resent,
           max(case when counter = 'pause_ns' and direction = 'received' then most end) as paused,
           min(first_ms) as first_ms, max(last_ms) as last_ms
    from device_counters
    group by job, host, device
  ) totals
),
figures as (
  select metric, job, nullif(src, src) as box, lane, direction, src, dst, readings, figure, least, 0 as bounded, 1.0 as weight
  from (
    select *, case metric when 'latency' then latency
                          when 'CE' then all_ce / nullif(all_capable, 0)
                          else all_retransmitted / nullif(all_packets, 0) end as figure
    from pairs
    cross join (
      select 'latency' as metric, {LATENCY_NS} as least union all select 'CE', {CE} union all select 'retransmission', {LOSS}
    ) metrics
  ) long
  where figure is not null
  union all
  select metric, job, host as box, coalesce(port_of, device) as lane, 'device' as direction, host || ' ' || device as src,
         host || ' ' || device as dst, readings, figure, least, 0 as bounded, 1.0 as weight
  from (
    select *, case metric when 'CE (device)' then coalesce(marked, 0) / nullif(rx, 0)
                          when 'retransmission (device)' then coalesce(resent, 0) / nullif(tx, 0)
                          else coalesce(paused, 0) / nullif(span, 0) end as figure
    from devices
    cross join (
      select 'CE (device)' as metric, {CE} as least union all select 'retransmission (device)', {LOSS}
      union all select 'paused (device)', {PAUSED}
    ) metrics
  ) long
  where figure is not null
  union all
  select metric, job, nullif(src, src) as box, lane, 'queue pair' as direction, src, dst, qp_rows as readings, figure, least, 0 as bounded,
         1.0 as weight
  from (
    select *, case metric when 'retries (QP)' then case when qp_retrying >= {RETRYING_READINGS} then qp_retrying else 0 end / nullif(qp_contexts, 0)
                          else case when qp_rnr_retrying >= {RETRYING_READINGS} then qp_rnr_retrying else 0 end / nullif(qp_rnr_contexts, 0) end as figure
    from qps
    cross join (
      select 'retries (QP)' as metric, {RETRYING} as least union all select 'RNR retries (QP)', {RETRYING}
    ) metrics
  ) of_qps
  where figure is not null
),

-- What happened when: sums over all flows, queue pairs and NICs in at most 60 slots of whole intervals, what began in each, and
-- what stands out.
with
-- When the rows of each table are, and how long their intervals. Contexts of queue pairs are read in turns.
extents as (
  select 1 as rank, count(*) as row_count, min(date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 1000000) as from_ms, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as to_ms, 1e0 * median(interval_ns) / 1000000 as each_ms
  from flow_seconds
  where {rows}
  union all
  select 2 as rank, count(*) as row_count, min(date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 1000000) as from_ms, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as to_ms, median(interval_ns) / 1000000 as each_ms
  from qp_seconds
  where {rows}
  union all
  select 3 as rank, count(*) as row_count, min(date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 1000000) as from_ms, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as to_ms, median(interval_ns) / 1000000 as each_ms
  from device_seconds
  where {rows}
  union all
  select 4 as rank, count(*) as row_count, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', min(t)) - 1e3 as from_ms, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as to_ms, 1e3 as each_ms
  from qp_lives
  where {rows}
  union all
  select 5 as rank, count(*) as row_count, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', min(t)) - 1e3 as from_ms, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as to_ms, 1e3 as each_ms
  from findings
  where {rows}
  union all
  select 6 as rank, count(*) as row_count, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', min(t)) - 1e3 as from_ms, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', max(t)) as to_ms, 1e3 as each_ms
  from events
  where {rows} and {SETUP_FAILED}
),
-- Slots are whole intervals of flows, or of what there is, and begin before the first row of any table.
bounds as (
  select begin_ms, end_ms, step_ms * greatest(1, ceil((end_ms - begin_ms) / 60 / step_ms)) as width_ms
  from (
    select base_ms - step_ms * greatest(0, ceil((base_ms - first_ms) / step_ms)) as begin_ms, end_ms, step_ms
    from (
      select argMin(from_ms, rank) as base_ms, min(case when rank < 4 then from_ms else from_ms + 1e3 end) as first_ms, max(to_ms) as end_ms,
             greatest(1, argMin(each_ms, rank)) as step_ms
      from extents
      where row_count > 0
    ) recorded
  ) aligned
),
-- Each tap of a flow. An interval is in the slot of its middle.
taps as (
  select floor((date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 2000000 - (select begin_ms from bounds)) / (select width_ms from bounds)) as slot, host, link, direction, src, dst, dest_qp,
         sum(1e0 * bytes) as tap_bytes, sum(case when lost is not null then packets end) as tap_packets, sum(ecn_capable) as tap_capable, sum(ce) as tap_ce,
         sum(lost) as tap_lost, sum(retransmitted) as tap_retransmitted, sum(timeouts) as tap_timeouts, sum(rtt_sum_ns) as tap_rtt, sum(rtt_count) as tap_rtts
  from flow_seconds
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
-- Contexts of queue pairs are read in turns, each at another time: how long a turn of the slowest host usually is, and from when to
-- when every queue pair has counts. Before its first turn and after its last, a range has those of a part of them.
turns as (
  select max(case when qp_from_ms < all_from_ms + turn_ms then qp_from_ms end) as known_from_ms,
         min(case when qp_to_ms > all_to_ms - turn_ms then qp_to_ms end) as known_to_ms
  from (
    select *, max(host_turn_ms) over () as turn_ms, min(qp_from_ms) over () as all_from_ms, max(qp_to_ms) over () as all_to_ms
    from (
      select qp_from_ms, qp_to_ms, sum(squares) over (partition by host) / sum(lengths) over (partition by host) as host_turn_ms
      from (
        select host, min(date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 1000000) as qp_from_ms, 1e0 * max(date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t)) as qp_to_ms,
               sum(1e0 * interval_ns / 1000000) as lengths, sum((1e0 * interval_ns / 1000000) * (1e0 * interval_ns / 1000000)) as squares
        from qp_seconds
        where {rows} and sent_packets is not null
        group by host, device, lqpn
      ) each_qp
    ) each_turn
  ) every_turn
),
-- NICs that process RoCE show no packets, but the context of each queue pair, and counters.
qp_parts as (
  select floor((date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 2000000 - (select begin_ms from bounds)) / (select width_ms from bounds)) as slot, host, device, lqpn,
         sum(case when date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 2000000 >= (select known_from_ms from turns)
                   and date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 2000000 < (select known_to_ms from turns) then sent_packets end) as part_packets,
         sum(case when date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 2000000 >= (select known_from_ms from turns)
                   and date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 2000000 < (select known_to_ms from turns)
                   and sent_packets is null then cast(1 as bigint) else cast(0 as bigint) end) as part_gaps, sum(retrying_readings) as part_retrying,
         max(stuck_ns) as part_stuck_ns
  from qp_seconds
  where {rows}
  group by slot, host, device, lqpn
),
-- Where the PSNs of a queue pair may have wrapped, its packets are not known: the sum is at least that of the others. One that never has a
-- count is in no sum.
qp_slots as (
  select *, case when max(part_packets) over (partition by host, device, lqpn) is not null then part_gaps end as part_unknown
  from qp_parts
),
-- Of several sources of one counter, that which counted most.
nic_parts as (
  select slot, host, counter as what, device, port, priority, max(part_count) as most
  from (
    select floor((date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 2000000 - (select begin_ms from bounds)) / (select width_ms from bounds)) as slot,
           host, device, port, counter, priority, source, sum(delta) as part_count
    from device_seconds
    where {rows} and (counter in ('tx_bytes', 'local_ack_timeouts') or counter = 'pause_ns' and direction = 'received')
    group by slot, host, device, port, counter, priority, source
  ) sources
  group by slot, host, counter, device, port, priority
),
-- What began at a time: a queue pair died, its set-up failed, a finding was first seen. Each counts once. The row of a death is written
-- again when the queue pair is destroyed.
moments as (
  select host, 'died' as what, '' as id, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', first_t) as at_ms
  from (
    select host, device, lqpn, created, min(t) as first_t from qp_lives where {rows_until} and end_kind = 'error' group by host, device, lqpn, created
  ) deaths
  where {first_in_range}
  union all
  select host, 'refused' as what, '' as id, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) as at_ms
  from events
  where {rows} and {SETUP_FAILED}
  union all
  select host, min(severity) as what, id, date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', since) as at_ms
  from findings
  where {rows} and since is not null and severity in ('critical', 'warning')
  group by host, id, link, direction, hop, src, dst, since
),
began as (
  select floor(greatest(0, at_ms - 1 - (select begin_ms from bounds)) / (select width_ms from bounds)) as slot, host, what, id
  from moments
  where at_ms >= (select begin_ms from bounds)
),
worst_ids as (
  select slot, id as worst_id, row_number() over (partition by slot order by what, count(*) desc, id) as place_of_id
  from began
  where id <> ''
  group by slot, what, id
),
facts as (
  select slot, host, what,
         1e0 * sum(case what when 'packets' then part_packets
                       when 'packets not known' then part_unknown
                       when 'retrying readings' then part_retrying
                       when 'QPs' then case when part_retrying is not null then 1 end
                       when 'retrying' then case when part_retrying > 0 then 1 else 0 end
                       when 'stuck' then case when part_stuck_ns is not null then case when part_stuck_ns >= {STUCK_NS} then 1 else 0 end end
                       else case when part_stuck_ns is not null then 1 end end) as amount
  from qp_slots
  cross join (
    select 'packets' as what union all select 'packets not known' union all select 'retrying readings' union all select 'QPs' union all select 'retrying'
    union all select 'stuck' union all select 'QPs in flight'
  ) whats
  group by slot, host, what
  union all
  select slot, host, what, 1e0 * sum(most) as amount from nic_parts group by slot, host, what
  union all
  select slot, host, what, 1e0 * count(*) as amount from began group by slot, host, what
  union all
  select 0e0 as slot, host, 'lives' as what, 1e0 * count(*) as amount from qp_lives where {rows_until} and {END_KNOWN} group by host
),
other_places as (
  select slot, case when grouping(host) = 1 then '' else max(host) end as place, sum(case when what = 'packets' then amount end) as qp_packets,
         sum(case when what = 'packets not known' then amount end) as qp_unknown,
         sum(case when what = 'retrying readings' then amount end) as qp_retrying_readings,
         sum(case when what = 'QPs' then amount end) as qp_known, sum(case when what = 'retrying' then amount end) as qp_retrying,
         sum(case when what = 'QPs in flight' then amount end) as qp_sending, sum(case when what = 'stuck' then amount end) as qp_stuck,
         sum(case when what = 'tx_bytes' then amount end) as nic_bytes, sum(case when what = 'local_ack_timeouts' then amount end) as nic_timeouts,
         sum(case when what = 'pause_ns' then amount end) as nic_paused_ns, sum(case when what = 'died' then amount end) as qp_died,
         sum(case when what = 'refused' then amount end) as qp_refused, sum(case when what = 'critical' then amount end) as began_critical,
         sum(case when what = 'warning' then amount end) as began_warning, sum(case when what = 'lives' then amount end) as qp_lives_seen
  from facts
  group by grouping sets ((slot, host), (slot))
),
-- All that is known of a host in a slot, and of all hosts, in one row.
combined as (
  select slot, place, max(is_after) as has_after, max(all_bytes) as of_bytes, max(all_packets) as of_packets, max(all_capable) as of_capable, max(all_ce) as of_ce,
         max(all_lost) as of_lost, max(all_retransmitted) as of_retransmitted, max(all_timeouts) as of_timeouts, max(all_rtt) as of_rtt,
         max(all_rtts) as of_rtts, max(qp_packets) as of_qp_packets, max(qp_retrying_readings) as of_qp_readings, max(qp_known) as of_qps,
         max(qp_retrying) as of_qps_retrying, max(qp_sending) as of_qps_sending, max(qp_stuck) as of_qps_stuck, max(nic_bytes) as of_nics_bytes,
         max(nic_timeouts) as of_nics_timeouts, max(nic_paused_ns) as of_nics_paused_ns, max(qp_died) as of_qps_died, max(qp_refused) as of_qps_refused,
         max(began_critical) as of_critical, max(began_warning) as of_warning, max(qp_lives_seen) as of_lives,
         max(qp_unknown) as of_qp_unknown
  from (
    select slot, place, is_after, all_bytes, all_packets, all_capable, all_ce, all_lost, all_retransmitted, all_timeouts, all_rtt, all_rtts, null as qp_packets,
           null as qp_retrying_readings, null as qp_known, null as qp_retrying, null as qp_sending, null as qp_stuck, null as nic_bytes, null as nic_timeouts,
           null as nic_paused_ns, null as qp_died, null as qp_refused, null as began_critical, null as began_warning, null as qp_lives_seen, null as qp_unknown
    from places
    union all
    select slot, place, null as is_after, null as all_bytes, null as all_packets, null as all_capable, null as all_ce, null as all_lost, null as all_retransmitted,
           null as all_timeouts, null as all_rtt, null as all_rtts, qp_packets, qp_retrying_readings, qp_known, qp_retrying, qp_sending, qp_stuck, nic_bytes,
           nic_timeouts, nic_paused_ns, qp_died, qp_refused, began_critical, began_warning, qp_lives_seen, qp_unknown
    from other_places
  ) every_place
  group by slot, place
),
-- Where no tap is after the path of a flow, nobody sees what is lost there. The first and the last slot may be recorded in part. What is
-- counted somewhere is 0 in a slot without it. Deaths are counted where the control path is followed.
known as (
  select *, max(has_after) over () as is_known, least((select width_ms from bounds), (select end_ms from bounds) - (select begin_ms from bounds) - slot * (select width_ms from bounds)) as length_ms,
         least((select begin_ms from bounds) + (slot + 1) * (select width_ms from bounds), (select known_to_ms from turns))
           - greatest((select begin_ms from bounds) + slot * (select width_ms from bounds), (select known_from_ms from turns)) as qps_length_ms,
         case when place = '' and max(of_bytes) over () > 0 then coalesce(of_bytes, 0) else of_bytes end as sent_bytes,
         case when place = '' and max(of_qp_packets) over () > 0 then coalesce(of_qp_packets, 0e0) else of_qp_packets end as sent_qp_packets,
         case when place = '' and max(of_nics_bytes) over () > 0 then coalesce(of_nics_bytes, 0e0) else of_nics_bytes end as sent_nic_bytes,
         case when place = '' and max(of_nics_timeouts) over () > 0 then coalesce(of_nics_timeouts, 0e0) else of_nics_timeouts end as expired,
         case when place = '' and max(of_nics_paused_ns) over () > 0 then coalesce(of_nics_paused_ns, 0e0) else of_nics_paused_ns end as paused_time_ns,
         case when place = '' and max(of_lives) over () > 0 then coalesce(of_qps_died, 0e0) else of_qps_died end as died,
         case when place = '' and max(of_qps_refused) over () > 0 then coalesce(of_qps_refused, 0e0) else of_qps_refused end as refused,
         case when place = '' and max(coalesce(of_critical, of_warning)) over () > 0 then coalesce(of_critical, 0e0) else of_critical end as critical,
         case when place = '' and max(coalesce(of_critical, of_warning)) over () > 0 then coalesce(of_warning, 0e0) else of_warning end as warnings
  from combined
),
long as (
  select slot, place, metric, least, of_packets, length_ms, qps_length_ms, warnings,
         case metric when 'latency' then 1e0 * of_rtt when 'CE' then 1e0 * of_ce when 'loss' then case when is_known = 1 then 1e0 * of_lost end
                     when 'retransmission' then 1e0 * of_retransmitted when 'timeouts' then 1e0 * of_timeouts when 'traffic' then 1e0 * sent_bytes
                     when 'retries (QP)' then case when of_qp_readings >= {RETRYING_READINGS} then of_qps_retrying when of_qps > 0 then 0e0 end
                     when 'stuck (QP)' then of_qps_stuck when 'packets (QP)' then case when qps_length_ms * 2 >= length_ms then case when of_qp_unknown > 0 then nullif(sent_qp_packets, 0e0) else sent_qp_packets end end when 'deaths (QP)' then died
                     when 'set-up failures (QP)' then refused when 'critical findings' then critical when 'traffic (device)' then sent_nic_bytes
                     when 'timeouts (device)' then expired else paused_time_ns end as num,
         case when metric = 'packets (QP)' and of_qp_unknown > 0 then 1 else 0 end as is_bound,
         case when metric = 'latency' then 1e0 * of_rtts when metric = 'CE' then 1e0 * of_capable
              when metric in ('traffic', 'traffic (device)') then length_ms / 1000 when metric = 'packets (QP)' then qps_length_ms / 1000 when metric = 'paused (device)' then length_ms * 1000000
              when metric = 'retries (QP)' then 1e0 * of_qps when metric = 'stuck (QP)' then 1e0 * of_qps_sending else 1e0 end as den
  from known
  cross join (
    select 'latency' as metric, {LATENCY_NS} as least union all select 'CE', {CE} union all select 'loss', {COUNTED}
    union all select 'retransmission', {COUNTED} union all select 'timeouts', {COUNTED} union all select 'traffic', {TRAFFIC}
    union all select 'retries (QP)', {SLOT_RETRYING} union all select 'stuck (QP)', {TROUBLED_QPS} union all select 'packets (QP)', {QP_PACKETS}
    union all select 'deaths (QP)', {ONE} union all select 'set-up failures (QP)', {COUNTED} union all select 'critical findings', {ONE}
    union all select 'traffic (device)', {TRAFFIC} union all select 'timeouts (device)', {COUNTED} union all select 'paused (device)', {PAUSED}
  ) metrics
),
tops as (
  select *, row_number() over (partition by slot, metric order by case when place = '' then 1 else 0 end, coalesce(num / nullif(den, 0), -1) desc, place) as rank
  from long
),
slots as (
  select slot, metric, max(least) as least_of, max(length_ms) as slot_ms, max(case when place = '' then of_packets end) as all_of,
         max(case when place = '' then warnings end) as all_warnings,
         max(case when place = '' then num end) as all_num, max(case when place = '' and is_bound = 0 then num / nullif(den, 0) end) as figure,
         max(case when place = '' and is_bound = 1 then num / nullif(den, 0) end) as least_figure,
         max(case when rank = 1 then place end) as top_host, max(case when rank = 1 then num end) as top_num
  from tops
  group by slot, metric
),
-- A lower bound is no figure to compare: that it is small does not say that little was sent.
medians as (
  select *, median(figure) over (partition by metric) as usual from slots
),
deviations as (
  select *, median(abs(figure - usual)) over (partition by metric) as mad from medians
),
scored as (
  select *, case when metric in ('traffic', 'packets (QP)', 'traffic (device)') then usual - figure else figure - usual end
            / greatest({DEVIATION} * mad, {DEVIATION} * {USUAL_SHARE} * usual, least_of / {STANDS_OUT}) as z
  from deviations
),
-- A queue pair that died ends its job, whatever else is unusual.
worst as (
  select *, row_number() over (partition by slot order by case when metric = 'deaths (QP)' and z >= {STANDS_OUT} then 0 else 1 end, coalesce(z, -1) desc, metric) as rank
  from scored
),
wide as (
  select slot, max(slot_ms) as length_ms, max(all_warnings) as warning_findings, sum(case when metric = 'traffic' then figure end) as bytes_per_s,
         sum(case when metric = 'traffic (device)' then figure end) as nic_bytes_per_s, sum(case when metric = 'packets (QP)' then coalesce(figure, least_figure) end) as qp_packets_per_s,
         max(case when metric = 'packets (QP)' and least_figure is not null then 1 end) as qp_packets_bound,
         sum(case when metric = 'loss' then all_num end) as lost_packets,
         sum(case when metric = 'loss' then all_num end) / nullif(max(all_of), 0) as loss_ratio,
         sum(case when metric = 'retransmission' then all_num end) as retransmitted_packets,
         sum(case when metric = 'timeouts' then all_num end) as timeout_count,
         max(case when metric = 'CE' then figure end) as ce_ratio, max(case when metric = 'latency' then figure end) as latency_ns,
         sum(case when metric = 'deaths (QP)' then all_num end) as qps_died, sum(case when metric = 'set-up failures (QP)' then all_num end) as setup_failures,
         sum(case when metric = 'stuck (QP)' then all_num end) as qps_stuck, max(case when metric = 'retries (QP)' then figure end) as qps_retrying_ratio,
         sum(case when metric = 'timeouts (device)' then all_num end) as nic_timeouts, sum(case when metric = 'paused (device)' then all_num end) as paused_ns,
         sum(case when metric = 'critical findings' then all_num end) as critical_findings,
         max(case when rank = 1 and z >= {STANDS_OUT} then metric end) as worst_metric, max(case when rank = 1 then z end) as worst_z,
         max(case when rank = 1 and z >= {STANDS_OUT} then figure end) as worst_figure, max(case when rank = 1 and z >= {STANDS_OUT} then usual end) as worst_usual,
         max(case when rank = 1 and z >= {STANDS_OUT} and metric not in ('traffic', 'packets (QP)', 'traffic (device)') then top_host end) as worst_host
  from worst
  group by slot
)
select ((select begin_ms from bounds) + w.slot * (select width_ms from bounds)) / 1000 as unix_s, length_ms * 1000000 as slot_ns, (select width_ms from bounds) * 1000000 as whole_slot_ns, bytes_per_s, lost_packets,
       loss_ratio, retransmitted_packets, timeout_count, ce_ratio, latency_ns, nic_bytes_per_s, nic_timeouts, paused_ns, qp_packets_per_s, case when qp_packets_bound = 1 then true end as qp_packets_lower_bound,
       qps_retrying_ratio, qps_stuck, qps_died, setup_failures, critical_findings, warning_findings, nullif(worst_id, '') as worst_finding,
       worst_metric, worst_z, worst_figure, worst_usual, worst_host
from wide w left join (select slot as id_slot, worst_id from worst_ids where place_of_id = 1) ids on w.slot = id_slot
order by unix_s
limit 1000

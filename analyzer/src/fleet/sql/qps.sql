-- NICs that process RoCE show no packets, but the context of each queue pair. A likely timeout is counted at each suspect.
-- Where the PSNs may have wrapped, the packets are not known, and neither is their share of errors.
qps as (
  select job, min(coalesce(rail, netdev)) as lane, src, dst, count(*) as qp_rows, sum(sent_packets) as qp_sent,
         sum(case when retrying_readings is not null then readings end) as qp_contexts, sum(case when rnr_retrying_readings is not null then readings end) as qp_rnr_contexts,
         sum(retrying_readings) as qp_retrying, sum(rnr_retrying_readings) as qp_rnr_retrying,
         sum(case when attribution = 'certain' and sent_packets is not null then coalesce(timeouts, 0) + coalesce(sequence_errors, 0) end) as qp_resent
  from qp_seconds
  where {rows} and src is not null and dst is not null
  group by job, src, dst
),

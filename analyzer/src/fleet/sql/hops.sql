-- Medians are the mean of the middle one or two in order: `median` of ClickHouse takes a sample of more than 8,192.
counted as (
  select *, count(*) over (partition by metric, job, direction) as peers,
         row_number() over (partition by metric, job, direction order by figure) as nth_figure
  from figures
),
-- Fewer pairs have no median: a loss, a retransmission and a CE mark count by themselves, and for the others there is nothing to
-- compare with.
medians as (
  select *, case when peers >= {COMPARED} then avg(case when abs(2 * nth_figure - peers - 1) <= 1 then figure end) over (partition by metric, job, direction)
                 when metric in ('loss', 'retransmitted', 'retransmission', 'retransmission (device)', 'CE', 'CE (device)', 'retries (QP)', 'timeouts and sequence errors (QP)') then 0 else figure end as raw_usual
  from counted
),
differing as (
  select *, row_number() over (partition by metric, job, direction order by abs(figure - raw_usual)) as nth_difference from medians
),
deviations as (
  select *, case when peers >= {COMPARED} then avg(case when abs(2 * nth_difference - peers - 1) <= 1 then abs(figure - raw_usual) end) over (partition by metric, job, direction)
                 else 0 end as raw_mad
  from differing
),
lossy as (
  select *, case when metric in ('loss', 'retransmitted', 'out of sequence (device)', 'timeouts (device)', 'timeouts and sequence errors (QP)') then 1 else 0 end as is_loss
  from deviations
),
-- That most pairs lose packets does not make it usual, as marks and latency may be.
compared as (
  select *, case when is_loss = 1 then least(raw_usual, least) else raw_usual end as usual, case when is_loss = 1 then least(raw_mad, least) else raw_mad end as mad
  from lossy
),
distances as (
  select *, (figure - usual) / greatest({DEVIATION} * mad, {DEVIATION} * {USUAL_SHARE} * usual, least / {STANDS_OUT}) as z from compared
),
-- A pair counts once: at the sender's tap, or at the receiver's if that alone is bad, as with CE of the fabric.
taps as (
  select *, row_number() over (partition by metric, job, src, dst order by case when z >= {STANDS_OUT} then 0 else 1 end, direction) as tap
  from distances
),
ports as (
  select host, link, case when direction = 'egress' then src else dst end as addr, max(case when direction = 'egress' then 1 else 0 end) as sends
  from flow_seconds
  where {rows} and direction is not null
  group by host, link, addr
  union all
  select host, netdev as link, src as addr, 1 as sends
  from qp_seconds
  where {rows} and netdev is not null and src is not null
  group by host, netdev, src
),
-- What only receives is a mirror port: neither end of what it sees is its own.
own_ports as (
  select *, max(sends) over (partition by host, link) as port_sends from ports
),
-- Which of several links of an address a packet took is not known.
owners as (
  select addr, argMin(host, host || ' ' || link) as owner, case when min(link) = max(link) then min(link) end as owner_link
  from own_ports
  where port_sends = 1
  group by addr
),
cables as (
  select host, link, dense_rank() over (partition by host, min(coalesce(rail, link)) order by link) as plane,
         argMax(neighbour_system, t) as switch, argMax(neighbour_port, t) as port
  from link_seconds
  where {rows}
  group by host, link
),
ends as (
  select addr, owner, nullif(switch, '') as switch, case when plane > 0 then 'plane ' || cast(plane as varchar) end as plane,
         owner || ' ' || owner_link || coalesce(' - ' || nullif(switch, '') || ' ' || nullif(port, ''), '') as cable
  from owners left join cables on owner = host and owner_link = link
),
cells as (
  select metric, job, box, lane, d.direction as direction, src, dst, readings, weight, bounded, peers, figure, usual, z,
         row_number() over (partition by metric, job order by src, dst) as number, count(*) over (partition by metric, job) as pairs_of_job,
         coalesce(s.plane, r.plane) as plane, s.switch as s_switch, r.switch as r_switch,
         coalesce(nullif(s.owner, ''), src) as s_owner, coalesce(nullif(r.owner, ''), dst) as r_owner,
         case when coalesce(s.owner, '') = '' then src else nullif(s.cable, '') end as s_cable,
         case when coalesce(r.owner, '') = '' then dst else nullif(r.cable, '') end as r_cable
  from taps d left join ends s on d.src = s.addr left join ends r on d.dst = r.addr
  where tap = 1
),
hops as (
  select metric, scope, breadth, case when metric = 'latency' or box is not null then '' else way end as side,
         job, direction, src, dst, readings, weight, bounded, peers, figure, usual, z,
         number, pairs_of_job, case scope when 'link' then case way when 'to' then r_cable else s_cable end
                    when 'host' then coalesce(box, case way when 'to' then r_owner else s_owner end)
                    when 'switch' then case way when 'to' then r_switch else s_switch end
                    when 'path' then s_switch || ' to ' || r_switch
                    when 'rail' then lane else plane end as hop
  from cells
  cross join (
    select 'link' as scope, 1 as breadth, 'from' as way union all select 'link', 1, 'to'
    union all select 'host', 2, 'from' union all select 'host', 2, 'to'
    union all select 'switch', 3, 'from' union all select 'switch', 3, 'to'
    union all select 'path', 4, '' union all select 'rail', 5, '' union all select 'plane', 6, ''
  ) scopes
  where not (metric = 'latency' and scope = 'switch' and way = 'to' and s_switch = r_switch) and not (box is not null and way = 'to')
),
totals as (
  select *, count(*) over (partition by metric, scope, side, hop) as pairs,
         sum(case when z >= {STANDS_OUT} then 1 else 0 end) over (partition by metric, scope, side, hop) as bad_pairs,
         median(z) over (partition by metric, scope, side, hop) as hop_z
  from hops
  where hop is not null and hop <> ''
)
-- The first pair of each figure of a job is a row even if it is not bad: it says how many there are, and whether they were compared.
select metric, scope, breadth, side, hop, bad_pairs, pairs, hop_z, job, direction, src, dst, readings, weight, bounded, peers, pairs_of_job,
       figure, usual, z, case when z >= {STANDS_OUT} and bad_pairs >= {BAD_SHARE} * pairs then 1 else 0 end as is_bad,
       case when z >= {STANDS_OUT} and bad_pairs >= {BAD_SHARE} * pairs then bad_pairs * pow(bad_pairs / pairs, 2) else 0 end as score
from totals
where z >= {STANDS_OUT} and bad_pairs >= {BAD_SHARE} * pairs or number = 1 and scope = 'host' and side in ('', 'from')
order by score desc, breadth, hop_z desc, metric, hop, side, src, dst, direction
limit 50000

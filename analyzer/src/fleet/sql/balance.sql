-- Load of parallel links, rails and planes: the busiest over the mean.
with
-- NICs that process RoCE show no packets, but count their bytes. Of several sources of one counter, that which counted most.
counters as (
  select host, netdev, case counter when 'rx_bytes' then 'ingress' else 'egress' end as way, source, sum(1e0 * delta) as counted
  from device_seconds
  where {rows} and netdev is not null and counter in ('rx_bytes', 'tx_bytes')
  group by host, netdev, counter, source
),
ways as (
  select host, link, coalesce(direction, 'both') as way, rail, neighbour_system, 1e0 * bytes as bytes, 0e0 as counted
  from link_seconds
  where {rows}
  union all
  select host, netdev as link, way, nullif(netdev, netdev) as rail, nullif(netdev, netdev) as neighbour_system, 0e0 as bytes, counted
  from counters
  union all
  select host, netdev as link, way, named as rail, nullif(named, named) as neighbour_system, 0e0 as bytes, 0e0 as counted
  from (
    select host, netdev, max(rail) as named from qp_seconds where {rows} and netdev is not null and rail is not null group by host, netdev
  ) rails
  cross join (select 'ingress' as way union all select 'egress') directions
),
-- The captures of a host without a named rail are parallel links of one.
loads as (
  select host, link, way as direction, coalesce(min(rail), case way when 'both' then '' else link end) as rail, coalesce(max(neighbour_system), '') as switch,
         greatest(sum(bytes), max(counted)) as carried
  from ways
  group by host, link, way
),
places as (
  select *, dense_rank() over (partition by host, rail, direction order by link) as plane,
         min(switch) over (partition by host, rail, direction) as first_switch,
         max(switch) over (partition by host, rail, direction) as last_switch
  from loads
),
parts as (
  select scope, direction, host, carried,
         case scope when 'links of a host' then case rail when '' then host else host || ' ' || rail end
                    when 'rails of a host' then host
                    when 'switches' then case when first_switch = last_switch then first_switch else first_switch || ' + ' || last_switch end
                    else 'all hosts' end as place,
         case scope when 'links of a host' then link
                    when 'rails of a host' then nullif(rail, '')
                    when 'rails' then nullif(rail, '')
                    else case when rail <> '' then 'plane ' || cast(plane as varchar) end end as part
  from places
  cross join (
    select 'links of a host' as scope union all select 'rails of a host' union all select 'switches'
    union all select 'planes' union all select 'rails'
  ) scopes
),
by_host as (
  select scope, direction, place, part, host, sum(carried) as host_carried
  from parts
  where place <> '' and part is not null
  group by scope, direction, place, part, host
),
-- A part is compared with the mean of the parts of the hosts that have it: others may have fewer, or of other names.
fair_shares as (
  select *, avg(host_carried) over (partition by scope, direction, place, host) as host_fair,
         max(host_carried) over (partition by scope, direction, place, host) as host_most,
         count(*) over (partition by scope, direction, place, host) as host_parts
  from by_host
),
sums as (
  select scope, direction, place, part, sum(host_carried) as carried, sum(host_fair) as fair,
         sum(case when host_carried = host_most and host_carried >= {UNEVEN} * host_fair then 1 else 0 end) as leads, count(*) as hosts,
         max(host_parts) as most_parts
  from fair_shares
  group by scope, direction, place, part
),
ranks as (
  select *, count(*) over (partition by scope, direction, place) as parts, carried / nullif(fair, 0) as ratio,
         row_number() over (partition by scope, direction, place order by carried / nullif(fair, 0) desc, part) as from_top,
         row_number() over (partition by scope, direction, place order by carried / nullif(fair, 0), part desc) as from_bottom
  from sums
),
answers as (
  select scope, direction, place, max(parts) as part_count, max(most_parts) as parallel_parts, max(case when from_top = 1 then hosts end) as of_hosts,
         max(case when from_top = 1 then part end) as busiest,
         max(case when from_top = 1 then ratio end) as busiest_ratio,
         max(case when from_top = 1 then leads end) as agree,
         max(case when from_bottom = 1 then part end) as idlest,
         max(case when from_bottom = 1 then ratio end) as idlest_ratio,
         sum(abs(carried - fair)) / 2 as misplaced
  from ranks
  where parts > 1
  group by scope, direction, place
),
judged as (
  select *, case when busiest_ratio >= {UNEVEN} then 1 else 0 end as is_bad,
         row_number() over (order by busiest_ratio desc, scope, place, direction) as number
  from answers
  where parallel_parts > 1
)
-- The first is a row even if it is even: it says that something was compared.
select scope, direction, place, part_count, busiest, busiest_ratio, idlest, idlest_ratio, agree, of_hosts, misplaced,
       misplaced * (busiest_ratio - 1) as score, is_bad
from judged
where is_bad = 1 or number = 1
order by score desc, scope, place, direction
limit 1000

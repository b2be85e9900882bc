-- What the counters of NICs counted. Of several sources of one counter, that which counted most. Priorities are paused beside one
-- another: `most` is that of the worst.
device_counters as (
  select job, host, device, port, counter, direction, max(any_netdev) as any_netdev, sum(row_count) as row_count, max(total) as total, max(most) as most,
         min(first_ms) as first_ms, max(last_ms) as last_ms
  from (
    select job, host, device, port, counter, direction, source, max(any_netdev) as any_netdev, sum(row_count) as row_count, sum(counted) as total,
           max(counted) as most, min(first_ms) as first_ms, max(last_ms) as last_ms
    from (
      select job, host, device, port, counter, direction, source, priority, max(netdev) as any_netdev, count(*) as row_count, sum(delta) as counted,
             min(date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t) - interval_ns / 1000000) as first_ms,
             max(date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00', t)) as last_ms
      from device_seconds
      where {rows}
      group by job, host, device, port, counter, direction, source, priority
    ) priorities
    group by job, host, device, port, counter, direction, source
  ) sources
  group by job, host, device, port, counter, direction
),

-- Workers, those that live first, the latest seen first among them. `stale`: its lease has run out and it did not say
-- goodbye; `lost`: nor has it come back, and its jobs were given to others. Those that stopped are shown for a day, those
-- that were lost until their rows are pruned.
select to_jsonb(w) || jsonb_build_object(
         'status', case when w.stopped_at is null and w.lease_expires_at > clock_timestamp()
                          then case when w.is_quiet then 'quiet' else 'alive' end
                        else coalesce(w.ended, 'stale') end,
         'is_stale', coalesce(w.ended, 'lost') = 'lost' and (w.stopped_at is not null or w.lease_expires_at <= clock_timestamp()),
         'seen_seconds_ago', round(extract(epoch from clock_timestamp() - w.last_seen_at)::numeric, 3))
  from windlass.job_workers w
 where w.stopped_at is null or w.ended = 'lost' or w.stopped_at > now() - interval '1 day'
 order by w.stopped_at is not null, w.last_seen_at desc limit 1000

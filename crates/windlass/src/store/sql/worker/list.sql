-- Workers, those that live first, the latest seen first among them. A worker is stale when its lease has run out and it did
-- not say goodbye; those that stopped are shown for a day.
select to_jsonb(w) || jsonb_build_object(
         'is_stale', w.stopped_at is null and w.lease_expires_at <= clock_timestamp(),
         'seen_seconds_ago', round(extract(epoch from clock_timestamp() - w.last_seen_at)::numeric, 3))
  from windlass.job_workers w
 where w.stopped_at is null or w.stopped_at > now() - interval '1 day'
 order by w.stopped_at is not null, w.last_seen_at desc limit 1000

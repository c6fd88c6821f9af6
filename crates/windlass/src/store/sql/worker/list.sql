-- Workers, live ones first, and among them the last seen first. `stale`: its lease has expired and it did not
-- deregister; `lost`: it has not returned either, and its jobs were recovered. Stopped workers are shown for a day,
-- lost ones until their rows are pruned.
select to_jsonb(w) || jsonb_build_object('is_draining', windlass.is_draining(w.id),
         'status', case when w.stopped_at is null and w.lease_expires_at > clock_timestamp()
                          then case when windlass.is_draining(w.id) then 'draining' else 'active' end
                        else coalesce(w.ended, 'stale') end,
         'is_stale', coalesce(w.ended, 'lost') = 'lost' and (w.stopped_at is not null or w.lease_expires_at <= clock_timestamp()),
         'seen_seconds_ago', round(extract(epoch from clock_timestamp() - w.last_seen_at)::numeric, 3))
  from windlass.job_workers w
 where w.stopped_at is null or w.ended = 'lost' or w.stopped_at > now() - interval '1 day'
 order by w.stopped_at is not null, w.last_seen_at desc limit 1000

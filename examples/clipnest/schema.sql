-- The application's own table, and the trigger that enqueues in the transaction of the insert, so that no video is lost.
-- The login that inserts needs the role windlass_app, or must call a function that has it.
create table if not exists clipnest_videos (
  id uuid primary key default gen_random_uuid(),
  video_url text not null,
  title text,
  transcript text,
  summary text,
  embedding real[],
  processing_status text not null default 'pending'
    check (processing_status in ('pending', 'scraping', 'enriching', 'done', 'failed')),
  processing_error text,
  created_at timestamptz not null default now()
);

create or replace function clipnest_enqueue() returns trigger language plpgsql as $$
begin
  perform windlass.enqueue('clipnest.scrape', jsonb_build_object('video_id', new.id, 'video_url', new.video_url),
    subject_type => 'video', subject_id => new.id::text);
  return new;
end
$$;

create or replace trigger clipnest_videos_enqueue after insert on clipnest_videos
  for each row execute function clipnest_enqueue();

-- Marks the rows whose function crashed in its last attempt and could not mark them itself. Idempotent.
create or replace function clipnest_reconcile() returns integer language sql as $$
  with dead as (
    update clipnest_videos v
       set processing_status = 'failed', processing_error = coalesce(j.last_error, j.reason)
      from windlass.jobs j
     where j.subject_type = 'video' and j.subject_id = v.id::text and j.status in ('failed', 'dead_letter')
       and v.processing_status not in ('done', 'failed')
    returning 1)
  select count(*)::integer from dead
$$;

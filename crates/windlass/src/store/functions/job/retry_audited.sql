-- An operator or an application runs a finished job once more: as retry_unaudited, with a row of the audit trail in the same
-- transaction. `actor` is what the caller says; the role is the database's word for who called.
create or replace function windlass.retry(tenant uuid, job uuid, actor text, out answer text, out holder uuid)
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
#variable_conflict use_column
declare
  done record;
begin
  if octet_length(actor) > 500 then
    raise exception 'actor must have at most 500 bytes' using errcode = 'WL007', column = 'actor';
  end if;
  select r.answer, r.holder, r.was into done from windlass.retry_unaudited(tenant, job) r;
  answer := done.answer;
  holder := done.holder;
  if done.was is not null then
    insert into windlass.audit (tenant_id, actor, role, action, target, detail)
      values (tenant, actor, windlass.caller(), 'job.retry', job::text, jsonb_build_object('from', done.was, 'to', done.answer));
  end if;
end
$$;

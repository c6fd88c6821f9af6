-- How a row of the audit trail goes into its chain, by the form of the link. 1: the row as one text, as nearly every row does (audit_hash).
-- 2: for a row that is too large for that (jsonb ends at 256 MB, and a text at 1 GB), a hash of the hashes of its parts, which proves it
-- just as well. 3: for a row that cannot be read at all, its id only. Such a link proves the place of the row and not what it says, so
-- verify_audit and the doctor tell of it forever.
create or replace function windlass.audit_link(previous bytea, entry windlass.audit, form smallint) returns bytea
language plpgsql stable
as $$
begin
  return case form
    when 2 then sha256(previous || '\x02'::bytea || windlass.digest_json(jsonb_build_array(entry.id, entry.tenant_id, extract(epoch from entry.at),
        entry.outcome, entry.from_address, entry.request_id))
      || windlass.digest_json(to_jsonb(entry.actor)) || windlass.digest_json(to_jsonb(entry.role)) || windlass.digest_json(to_jsonb(entry.action))
      || windlass.digest_json(to_jsonb(entry.target)) || windlass.digest_json(entry.detail) || windlass.digest_json(entry.before)
      || windlass.digest_json(entry.after))
    else sha256(previous || '\x03'::bytea || int8send(entry.id)) end;
end
$$;

-- The link of a row that cannot have one of the first form, for the reason given; it is noted.
create or replace function windlass.other_audit_link(
  previous bytea, entry windlass.audit, state text, reason text, out link bytea, out form smallint)
language plpgsql
as $$
begin
  perform windlass.raise_server_trouble(state, reason);
  begin
    form := 2;
    link := windlass.audit_link(previous, entry, form);
  exception when data_exception or program_limit_exceeded or internal_error then
    form := 3;
    reason := sqlerrm;
    link := windlass.audit_link(previous, entry, form);
  end;
  perform windlass.note_trouble('seal', entry.tenant_id, entry.id::text, format('the audit row cannot be hashed as one text (%s): %s',
    reason, case form when 2 then 'its parts are' else 'its link does not prove what it says' end));
end
$$;

-- A hash of JSON of any size, part by part; null has one too.
create or replace function windlass.digest_json(value jsonb) returns bytea
language plpgsql immutable
as $$
begin
  return case coalesce(jsonb_typeof(value), 'none')
    when 'object' then (
      select sha256('\x01'::bytea || coalesce(string_agg(sha256(convert_to(m.key, 'UTF8')) || windlass.digest_json(m.value), '' order by m.key collate "C"), ''))
        from jsonb_each(value) m)
    when 'array' then (
      select sha256('\x02'::bytea || coalesce(string_agg(windlass.digest_json(m.value), '' order by m.place), ''))
        from jsonb_array_elements(value) with ordinality m (value, place))
    when 'string' then sha256('\x03'::bytea || convert_to(value #>> '{}', 'UTF8'))
    else sha256('\x04'::bytea || convert_to(coalesce(value::text, ''), 'UTF8')) end;
end
$$;

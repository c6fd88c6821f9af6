-- The hash that links a row of the audit trail to the row before it, by the form of the link. Form 1: the row as one
-- text (audit_hash), for nearly every row. Form 2: a hash of the hashes of its parts, for a row that is too large for
-- one text (jsonb is limited to 256 MB, text to 1 GB); it proves the content equally well. Form 3: the id only, for a
-- row that cannot be read. Such a link proves the position of the row but not its content, so verify_audit and the
-- doctor always report it.
create or replace function windlass.audit_link(previous bytea, entry windlass.audit, form smallint) returns bytea
language plpgsql stable
as $$
begin
  return case form
    when 2 then sha256(previous || E'\\x02'::bytea || windlass.digest_json(jsonb_build_array(entry.id, entry.tenant_id,
        extract(epoch from entry.at), entry.outcome, entry.from_address, entry.request_id))
      || windlass.digest_json(to_jsonb(entry.actor)) || windlass.digest_json(to_jsonb(entry.role))
      || windlass.digest_json(to_jsonb(entry.action))
      || windlass.digest_json(to_jsonb(entry.target)) || windlass.digest_json(entry.detail) || windlass.digest_json(entry.before)
      || windlass.digest_json(entry.after))
    else sha256(previous || E'\\x03'::bytea || int8send(entry.id)) end;
end
$$;

-- The link of a row that cannot have one of form 1, for the given reason. Records the problem in `problem`.
create or replace function windlass.other_audit_link(
  previous bytea, entry windlass.audit, state text, reason text, out link bytea, out form smallint)
language plpgsql
as $$
begin
  perform windlass.raise_server_problem(state, reason);
  begin
    form := 2;
    link := windlass.audit_link(previous, entry, form);
  exception when data_exception or program_limit_exceeded or internal_error then
    form := 3;
    reason := sqlerrm;
    link := windlass.audit_link(previous, entry, form);
  end;
  perform windlass.note_problem('seal', entry.tenant_id, entry.id::text,
    format('the audit row is too large to be hashed as one text (%s): %s',
    reason, case form when 2 then 'its parts were hashed instead' else 'its content is not verified' end));
end
$$;

-- A hash of JSON of any size, computed from its parts. Null has a hash too.
create or replace function windlass.digest_json(value jsonb) returns bytea
language plpgsql immutable
as $$
begin
  return case coalesce(jsonb_typeof(value), 'none')
    when 'object' then (
      select sha256(E'\\x01'::bytea || coalesce(string_agg(sha256(convert_to(m.key, 'UTF8')) || windlass.digest_json(m.value), ''
             order by m.key collate "C"), ''))
        from jsonb_each(value) m)
    when 'array' then (
      select sha256(E'\\x02'::bytea || coalesce(string_agg(windlass.digest_json(m.value), '' order by m.place), ''))
        from jsonb_array_elements(value) with ordinality m (value, place))
    when 'string' then sha256(E'\\x03'::bytea || convert_to(value #>> '{}', 'UTF8'))
    else sha256(E'\\x04'::bytea || convert_to(coalesce(value::text, ''), 'UTF8')) end;
end
$$;

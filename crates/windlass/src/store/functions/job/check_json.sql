-- The limits on JSON of the SQL functions; `json.rs` has the same ones for Rust callers, which never reach this. Bytes
-- are counted in the text form, because jsonb stores `1e131071` in ten bytes and prints it in 131 073. The depth is
-- computed only for a text with more brackets than the limit, and numbers outside the range of a float are searched
-- only in a text with a run of digits that long, so ordinary payloads cost two replacements and a scan.
create or replace function windlass.check_json(field text, value jsonb) returns void
language plpgsql immutable
as $$
declare
  plain text := value::text;
begin
  if octet_length(plain) > 1048576 then
    raise exception '% has % bytes of JSON; at most 1048576 are allowed', field, octet_length(plain)
      using errcode = 'WL005', column = field;
  end if;
  if length(plain) - length(translate(plain, '[{', '')) > 32 and jsonb_path_exists(value, '$.**{33}') then
    raise exception '% is nested more than 32 levels deep', field using errcode = 'WL005', column = field;
  end if;
  if length(plain) > 255 and plain ~ '[0-9]{255}'
     and jsonb_path_exists(value,
       'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))') then
    raise exception '% contains a number outside the range of a 64-bit float', field using errcode = 'WL005', column = field;
  end if;
end
$$;

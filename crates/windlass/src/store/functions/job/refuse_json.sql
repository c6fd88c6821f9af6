-- The limits on JSON at the SQL door; `json.rs` holds the same ones for Rust callers, which never reach this.
-- Bytes are counted in the text form, because jsonb keeps `1e131071` in ten bytes and prints it in 131 073.
-- Depth is looked for only in a text with more brackets than the limit, and numbers that no float holds only in one
-- with as long a run of digits, so ordinary payloads pay two replaces and a scan.
create or replace function windlass.refuse_json(field text, value jsonb) returns void
language plpgsql immutable
as $$
declare
  plain text := value::text;
begin
  if octet_length(plain) > 1048576 then
    raise exception '% is % bytes of JSON, the most is 1048576', field, octet_length(plain) using errcode = 'WL005', column = field;
  end if;
  if length(plain) - length(translate(plain, '[{', '')) > 32 and jsonb_path_exists(value, '$.**{33}') then
    raise exception '% is nested deeper than 32 levels', field using errcode = 'WL005', column = field;
  end if;
  if length(plain) > 255 and plain ~ '[0-9]{255}'
     and jsonb_path_exists(value, 'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))') then
    raise exception '% holds a number outside the range of a 64-bit float', field using errcode = 'WL005', column = field;
  end if;
end
$$;

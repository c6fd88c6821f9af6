-- The tenant whose newest blocked jobs the keeper checked last (see unblock_recent).
alter table windlass.unblock_mark add column recent_tenant uuid not null default '00000000-0000-0000-0000-000000000000';

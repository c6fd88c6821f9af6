-- What other logins have left in the database that stops a documented backup or restore. Every login can create both without a
-- privilege, and only they or a superuser can remove them: a large object, which pg_dump of the whole database cannot read, and default
-- privileges, which a restore by another login cannot set.
select format('%s large objects of %I', count(*), r.rolname) as found,
       format('dump with --schema=windlass, or remove them as %I or a superuser with lo_unlink', r.rolname) as advice
  from pg_catalog.pg_largeobject_metadata o
  join pg_catalog.pg_roles r on r.oid = o.lomowner
 where r.rolname <> current_user and not r.rolsuper
 group by r.rolname
union all
select format('default privileges of %I in %s', r.rolname, string_agg(distinct coalesce('the schema ' || n.nspname, 'all schemas'), ', ')),
       format('leave DEFAULT ACL out of the restore, or remove them as %I or a superuser with alter default privileges', r.rolname)
  from pg_catalog.pg_default_acl d
  left join pg_catalog.pg_namespace n on n.oid = d.defaclnamespace
  join pg_catalog.pg_roles r on r.oid = d.defaclrole
 where not r.rolsuper and r.rolname not in ('windlass_owner', current_user)
 group by r.rolname
 order by 1 limit 20

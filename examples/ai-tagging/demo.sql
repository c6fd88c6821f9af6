-- Two workspaces for `windlass up --example ai-tagging`. Running it again adds only what is missing.
set role service_role;
insert into workspaces (id, slug, name)
  values (gen_random_uuid(), 'noodle-club', 'Noodle Club'), (gen_random_uuid(), 'night-train', 'Night Train')
  on conflict (slug) do nothing;
insert into workspace_threads_accounts (workspace_id, handle)
  select w.id, '@' || w.slug from workspaces w
   where not exists (select from workspace_threads_accounts a where a.workspace_id = w.id);
insert into workspace_threads_posts (workspace_threads_account_id, content)
  select a.id, t.content
    from workspace_threads_accounts a
    cross join (values ('今天的拉麵超好吃，湯頭很濃 #ramen'), ('Night train to Hualien, window seat, no sleep'), ('新手機到貨了！相機真的強'),
      ('Anyone else up before the first train? #coffee'), ('賽後心得：最後一哩路最難 #marathon'), (''),
      ('Recipe for beef noodle soup in the comments')) t (content)
   where not exists (select from workspace_threads_posts p where p.workspace_threads_account_id = a.id);

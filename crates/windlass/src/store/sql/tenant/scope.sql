-- Limits the rest of the transaction to reads of one tenant: row-level security allows that tenant's rows, and the
-- planner plans for the actual arguments, in the order of an index. On tables that were never analyzed, or analyzed
-- while they were empty, it would otherwise choose sequential scans, or bitmaps that it has to sort (99 980 rows for a
-- page of 20); a generic plan could not drop absent filters. $2: only the index on tags needs bitmaps.
select set_config('windlass.tenant_id', $1, true), set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', $2, true), set_config('jit', 'off', true)

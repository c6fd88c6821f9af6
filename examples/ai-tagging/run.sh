#!/bin/sh
# `windlass up --example ai-tagging` runs this script after the server has started. WINDLASS is the binary, DATABASE_URL the database.
set -eu
: "${WINDLASS:=windlass}"
command -v psql >/dev/null || { echo "psql is missing: apt-get install postgresql-client" >&2; exit 1; }

# The worker signs its requests with this secret, and the function checks the signatures.
AI_TAGGING_SECRET=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export AI_TAGGING_SECRET

if ! psql -XqAtc "select to_regclass('public.workspace_threads_posts')" "$DATABASE_URL" | grep -q .; then
  psql -Xq1 -v ON_ERROR_STOP=1 -f schema.sql -f members.sql "$DATABASE_URL" >/dev/null
fi
# Start the worker after the function, because a failed connection would count as an attempt.
rm -f function.out
python3 function.py >function.out &
until grep -qs ready function.out; do kill -0 $! || exit 1; sleep 0.1; done
"$WINDLASS" worker --config worker.toml --no-keeper &
psql -Xq -v ON_ERROR_STOP=1 -f demo.sql "$DATABASE_URL"

# The signal that stops this script also reaches its programs; wait for them.
trap : TERM INT
wait || true
wait || true

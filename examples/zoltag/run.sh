#!/bin/sh
# `windlass up --example zoltag` runs this script after the server has started. WINDLASS is the binary, WINDLASS_SERVER the
# address of the server, WINDLASS_TOKEN_FILE the file with the token, DATABASE_URL the database.
set -eu
: "${WINDLASS:=windlass}"
command -v curl >/dev/null || { echo "curl is missing: apt-get install curl" >&2; exit 1; }

# Three workers, as on three machines. Only their file defines which program runs for a definition key.
rm -f worker-*.out
for number in 1 2 3; do
  "$WINDLASS" worker --config worker.toml --no-keeper >"worker-$number.out" &
  last=$!
done
for number in 1 2 3; do
  until grep -qs ready "worker-$number.out"; do kill -0 $last || exit 1; sleep 0.1; done
done

call() { # call TENANT PATH [JSON]: a GET, or a POST of the JSON; prints the response body
  curl -sS -f -H "Authorization: Bearer $(cat "$WINDLASS_TOKEN_FILE")" -H "X-Tenant-Id: $1" \
    -H 'Content-Type: application/json' ${3:+-d "$3"} "$WINDLASS_SERVER$2"
}
post() { call "$@" >/dev/null; }
field() { python3 -c "import json, sys; print(json.load(sys.stdin)['$1'] or '')"; }
tenant() { # prints the id of a tenant; creates it if it does not exist
  "$WINDLASS" tenants create "$1" --name "$2" >/dev/null 2>&1 || true
  "$WINDLASS" tenants list --json | python3 -c "import json, sys
for tenant in json.load(sys.stdin):
    if tenant['slug'] == '$1': print(tenant['id'])"
}
acme=$(tenant acme "Acme Pictures")
bcg=$(tenant bcg "BCG Archive")

if [ ! -e triggers ]; then
  post "$acme" /api/v1/jobs/triggers "$(cat folder-updated.json)"
  post "$acme" /api/v1/jobs/triggers "$(cat nightly.json)"
  touch triggers
fi
post "$bcg" /api/v1/jobs "$(cat enqueue.json)"
post "$acme" /api/v1/events '{"name": "provider.folder.updated",
  "payload": {"provider_id": "7f0c2b9e-64a5-4f6b-9a53-2f7a1c0d8e21", "folder_path": "/summer"}}'

# Kill one worker in the middle of a run. Another worker runs its job again, and the Workers page shows the lost worker. The id of a
# worker is host:pid:start.
keywords=$(seq -f '"keyword-%g"' -s , 1 50)
train=$(call "$bcg" /api/v1/jobs "{\"definition_key\": \"train-keyword-models\", \"payload\": {\"keywords\": [$keywords]}}" | field id)
while holder=$(call "$bcg" "/api/v1/jobs/$train" | field claimed_by_worker) && [ -z "$holder" ]; do sleep 0.1; done
sleep 1
kill -9 "$(echo "$holder" | cut -d: -f2)"

# The signal that stops this script also reaches its programs; wait for them.
trap : TERM INT
wait || true
wait || true

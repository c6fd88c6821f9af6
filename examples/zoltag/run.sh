#!/bin/sh
# What `windlass up --example zoltag` runs, once windlass serves. WINDLASS is the program; WINDLASS_SERVER and
# WINDLASS_TOKEN_FILE say where it serves and who we are; DATABASE_URL is its Postgres.
set -eu
: "${WINDLASS:=windlass}"
command -v curl >/dev/null || { echo "curl is missing: apt-get install curl" >&2; exit 1; }

# Three workers, as on three machines. Their file is the only place that says what a command's key runs.
rm -f worker-*.out
for number in 1 2 3; do
  "$WINDLASS" worker --config worker.toml --no-keeper >"worker-$number.out" &
  last=$!
done
for number in 1 2 3; do
  until grep -qs ready "worker-$number.out"; do kill -0 $last || exit 1; sleep 0.1; done
done

call() { # call TENANT PATH [JSON]: a GET, or a POST of the JSON; answers with the body
  curl -sS -f -H "Authorization: Bearer $(cat "$WINDLASS_TOKEN_FILE")" -H "X-Tenant-Id: $1" \
    -H 'Content-Type: application/json' ${3:+-d "$3"} "$WINDLASS_SERVER$2"
}
post() { call "$@" >/dev/null; }
field() { python3 -c "import json, sys; print(json.load(sys.stdin)['$1'] or '')"; }
tenant() { # the id of a tenant, made if it is not there
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

# One machine goes down in the middle of a run. Its job runs again elsewhere, and the workers' page tells of it. A worker's name
# is host:pid:start.
keywords=$(seq -f '"keyword-%g"' -s , 1 50)
train=$(call "$bcg" /api/v1/jobs "{\"definition_key\": \"train-keyword-models\", \"payload\": {\"keywords\": [$keywords]}}" | field id)
while holder=$(call "$bcg" "/api/v1/jobs/$train" | field claimed_by_worker) && [ -z "$holder" ]; do sleep 0.1; done
sleep 1
kill -9 "$(echo "$holder" | cut -d: -f2)"

# The signal that ends this script goes to its programs as well; it waits for them.
trap : TERM INT
wait || true
wait || true

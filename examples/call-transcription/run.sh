#!/bin/sh
# `windlass up --example call-transcription` runs this script after the server has started. WINDLASS is the binary, WINDLASS_SERVER the
# address of the server, WINDLASS_TOKEN_FILE the file with the token, DATABASE_URL the database.
set -eu
: "${WINDLASS:=windlass}"
command -v node >/dev/null || { echo "node is missing: apt-get install nodejs" >&2; exit 1; }
command -v npm >/dev/null || { echo "npm is missing: apt-get install npm" >&2; exit 1; }
command -v psql >/dev/null || { echo "psql is missing: apt-get install postgresql-client" >&2; exit 1; }

# The compiler is downloaded once; the programs are compiled at every start, because the sources may be those of a newer version.
[ -d compiler/node_modules/typescript ] ||
  npm install --silent --no-audit --no-fund --prefix compiler typescript@5.9 @types/node@20
node compiler/node_modules/typescript/bin/tsc --typeRoots compiler/node_modules/@types

"$WINDLASS" definitions apply definitions.json
PGOPTIONS="-c client_min_messages=warning" psql -Xq -v ON_ERROR_STOP=1 -f schema.sql "$DATABASE_URL"

# A token of the role worker; kept for the next start.
[ -s worker.token ] || (umask 077 && "$WINDLASS" tokens create call-worker --role worker --tenant default >worker.token 2>/dev/null)
export WINDLASS_SERVER STORAGE=storage SPEECH_URL="http://127.0.0.1:${PORT:=8400}" PORT
node dist/speech-main.js &
WINDLASS_TOKEN=$(cat worker.token) POLL_SECONDS=2 node dist/main.js &

# A first call: its upload, and its first stage.
call=call-$(date +%s)
mkdir -p "storage/acme/$call"
echo '{"words": ["hello", "order", "please", "thanks", "goodbye"]}' >"storage/acme/$call/upload.json"
psql -Xq -o /dev/null -v ON_ERROR_STOP=1 -v call="$call" "$DATABASE_URL" <<'SQL'
select windlass.enqueue('call.extract_audio', jsonb_build_object('org_id', 'acme', 'call_id', :'call'),
  subject_type => 'call', subject_id => :'call');
SQL

# The signal that stops this script also reaches its programs; wait for them.
trap : TERM INT
wait || true
wait || true

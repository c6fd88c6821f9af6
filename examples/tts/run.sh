#!/bin/sh
# `windlass up --example tts` runs this script after the server has started. WINDLASS is the binary, WINDLASS_SERVER the
# address of the server, WINDLASS_TOKEN_FILE the file with the token. From the repository: PYTHONPATH=../../clients/python sh run.sh
set -eu
: "${WINDLASS:=windlass}"
command -v espeak-ng >/dev/null || { echo "espeak-ng is missing: apt-get install espeak-ng" >&2; exit 1; }

"$WINDLASS" definitions apply definitions.json

# A token for each program, with the least role that it needs; kept for the next start.
token() {
  [ -s "$1.token" ] || (umask 077 && "$WINDLASS" tokens create "$1" --role "$2" --tenant default >"$1.token" 2>/dev/null)
  cat "$1.token"
}
service=$(token tts-service operator)
worker=$(token tts-worker worker)
export WINDLASS_SERVER
unset WINDLASS_TOKEN_FILE

WINDLASS_TOKEN=$service python3 service.py &
WINDLASS_TOKEN=$worker python3 worker.py &

# A first dialogue, requested as a user.
python3 - <<'PYTHON'
import json, time, urllib.request
for attempt in range(100):
    try:
        request = urllib.request.Request("http://127.0.0.1:8202/jobs", open("dialogue.json", "rb").read(),
                                         {"X-User-Id": "5f0c6e58-7f5e-4b1e-9d52-0a7b8d3c1e11"})
        print("requested", json.load(urllib.request.urlopen(request))["id"])
        break
    except OSError:
        time.sleep(0.1)
PYTHON

# The signal that stops this script also reaches its programs; wait for them.
trap : TERM INT
wait || true
wait || true

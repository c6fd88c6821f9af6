#!/bin/sh
# What `windlass up --example tts` runs, once windlass serves. WINDLASS is the program; WINDLASS_SERVER and
# WINDLASS_TOKEN_FILE say where it serves and who we are. From the repository: PYTHONPATH=../../clients/python sh run.sh
set -eu
: "${WINDLASS:=windlass}"
command -v espeak-ng >/dev/null || { echo "espeak-ng is missing: apt-get install espeak-ng" >&2; exit 1; }

"$WINDLASS" definitions apply definitions.json

# A token for each program, no mightier than it needs; kept for the next start.
token() {
  [ -s "$1.token" ] || (umask 077 && "$WINDLASS" tokens create "$1" --role "$2" --tenant default >"$1.token" 2>/dev/null)
  cat "$1.token"
}
service=$(token tts-service operator)
worker=$(token tts-worker worker)
export WINDLASS_URL="$WINDLASS_SERVER"
unset WINDLASS_TOKEN_FILE

WINDLASS_TOKEN=$service python3 service.py &
WINDLASS_TOKEN=$worker python3 worker.py &

# The first dialogue, as a user would ask for it.
python3 - <<'PYTHON'
import json, time, urllib.request
for attempt in range(100):
    try:
        request = urllib.request.Request("http://127.0.0.1:8202/jobs", open("dialogue.json", "rb").read(),
                                         {"X-User-Id": "5f0c6e58-7f5e-4b1e-9d52-0a7b8d3c1e11"})
        print("asked for", json.load(urllib.request.urlopen(request))["id"])
        break
    except OSError:
        time.sleep(0.1)
PYTHON

# The signal that ends this script goes to its programs as well; it waits for them.
trap : TERM INT
wait || true
wait || true

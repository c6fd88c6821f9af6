#!/bin/sh
# `windlass up --example clipnest` runs this script after the server has started. WINDLASS is the binary, DATABASE_URL the database.
set -eu
: "${WINDLASS:=windlass}"
command -v psql >/dev/null || { echo "psql is missing: apt-get install postgresql-client" >&2; exit 1; }

# The worker signs its requests with this secret, and the functions check the signatures.
CLIPNEST_SECRET=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export CLIPNEST_SECRET

"$WINDLASS" definitions apply definitions.json
psql -Xq1 -v ON_ERROR_STOP=1 -f schema.sql "$DATABASE_URL"
# Start the worker after the functions, because a failed connection would count as an attempt.
rm -f functions.out
python3 functions.py >functions.out &
until grep -qs ready functions.out; do kill -0 $! || exit 1; sleep 0.1; done
"$WINDLASS" worker --config worker.toml --no-keeper &

# A first video, served from this directory: a page with captions.
mkdir -p videos
cat >videos/harbour.html <<'HTML'
<html><head><title>A morning at the harbour</title></head><body><video><track src="harbour.vtt"></video></body></html>
HTML
cat >videos/harbour.vtt <<'VTT'
WEBVTT

00:00.000 --> 00:04.000
The boats leave the harbour before the sun is up.

00:04.000 --> 00:08.000
By noon the harbour smells of fish, rope and coffee.
VTT
# Start the web server before the first scrape, which would otherwise wait for its retry.
rm -f videos.out
python3 -u -m http.server 8301 --bind 127.0.0.1 --directory videos >videos.out 2>&1 &
until grep -qs Serving videos.out; do kill -0 $! || exit 1; sleep 0.1; done
psql -Xqc "insert into clipnest_videos (video_url) values ('http://127.0.0.1:8301/harbour.html')" "$DATABASE_URL"

# The signal that stops this script also reaches its programs; wait for them.
trap : TERM INT
wait || true
wait || true

"""The TTS worker: claims jobs from windlass, synthesizes speech, and reports progress.

    WINDLASS_SERVER=http://127.0.0.1:8080 WINDLASS_TOKEN=… AUDIO_DIR=audio python3 worker.py
"""

import os
import time

import audio
from windlass import Client, Permanent, Worker

AUDIO_DIR = os.path.abspath(os.environ.get("AUDIO_DIR", "audio"))

client = Client(os.environ["WINDLASS_SERVER"], token=os.environ["WINDLASS_TOKEN"], tenant=os.environ.get("WINDLASS_TENANT"))
worker = Worker(client, concurrency=2, lease_seconds=30)


def path_of(job_id):
    """The path of a job's audio: derived from its id, so that a second attempt replaces the file of the first."""
    return os.path.join(AUDIO_DIR, f"{job_id}.wav")


@worker.handler("multi_role_tts")
def multi_role_tts(job):
    began = time.monotonic()
    params = job.payload["input_params"]
    turns = sorted(params["turns"], key=lambda turn: turn["index"])
    voices = {voice["speaker"]: voice["voice_id"] for voice in params["voice_assignments"]}
    for turn in turns:
        voice = voices.get(turn["speaker"])
        if voice not in audio.VOICES:
            # The schema cannot check this, and a retry cannot help.
            raise Permanent(f"speaker {turn['speaker']!r} has the voice {voice!r}, which espeak-ng does not offer")

    spoken = []
    for number, turn in enumerate(turns, 1):
        job.check()  # Raises when the user has canceled.
        spoken.append(audio.speak(turn["text"], voices[turn["speaker"]]))
        job.progress(90 * number / len(turns), f"turn {number} of {len(turns)}")
    joined, timings = audio.join(spoken, params.get("gap_ms", 0), params.get("crossfade_ms", 0))
    path = path_of(job.id)
    audio.save(joined, path)

    duration = audio.milliseconds(len(joined))
    job.artifact({"audio_file_id": job.id, "storage_path": path, "format": "wav", "duration_ms": duration})
    return {
        "duration_ms": duration,
        "latency_ms": int((time.monotonic() - began) * 1000),
        "synthesis_mode": "segmented",
        "turn_timings": timings,
    }


@worker.handler("delete_audio")
def delete_audio(job):
    """Enqueued by windlass before it deletes a job with audio; the job is deleted when this has succeeded."""
    path = path_of(job.payload["job_id"])
    was_there = os.path.exists(path)
    if was_there:
        os.remove(path)
    return {"deleted": was_there}


if __name__ == "__main__":
    print("ready: pulling", flush=True)
    worker.run()

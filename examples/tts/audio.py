"""Speech: one WAV per turn from espeak-ng, joined with gaps and crossfades. This module does not depend on jobs."""

import array
import os
import subprocess
import tempfile
import wave

# Maps the voices of the old provider to espeak-ng voices.
VOICES = {
    "zh-TW-HsiaoYuNeural": ("cmn", "f3"),
    "zh-TW-YunJheNeural": ("cmn", "m3"),
    "en-US-JennyNeural": ("en-us", "f2"),
    "en-US-GuyNeural": ("en-us", "m2"),
}

RATE = 22050


def speak(text, voice_id):
    """The samples of a text in a voice."""
    language, variant = VOICES[voice_id]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "turn.wav")
        # The text is passed by standard input, so that it cannot be read as an option.
        command = ["espeak-ng", "-v", f"{language}+{variant}", "-w", path, "--stdin"]
        subprocess.run(command, input=text.encode(), check=True, capture_output=True, timeout=120)
        with wave.open(path, "rb") as file:
            if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE, 2, 1):
                raise ValueError(f"espeak-ng wrote an unexpected format: {file.getparams()}")
            return array.array("h", file.readframes(file.getnframes()))


def join(turns, gap_ms, crossfade_ms):
    """Joins all turns and returns when each starts and ends. With a gap, the edges fade into silence; without one, the end of a
    turn and the start of the next are crossfaded."""
    fade = RATE * crossfade_ms // 1000
    gap = RATE * gap_ms // 1000
    joined, timings = array.array("h"), []
    for index, turn in enumerate(turns):
        faded = array.array("h", turn)
        length = min(fade, len(faded) // 2)
        for n in range(length):
            if index > 0:
                faded[n] = faded[n] * n // length
            if index < len(turns) - 1:
                faded[-1 - n] = faded[-1 - n] * n // length
        start = len(joined)
        if index > 0 and gap:
            joined.extend(array.array("h", bytes(2 * gap)))
            start = len(joined)
        elif index > 0:
            start -= min(length, len(joined))
        overlap = len(joined) - start
        for n in range(overlap):
            joined[start + n] = max(-32768, min(32767, joined[start + n] + faded[n]))
        joined.extend(faded[overlap:])
        timings.append({"turn_index": index, "start_ms": milliseconds(start), "end_ms": milliseconds(len(joined))})
    return joined, timings


def save(samples, path):
    """Writes atomically: a reader never sees a partial file, and a second attempt writes the same name."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    half = f"{path}.{os.getpid()}.half"
    with wave.open(half, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    os.replace(half, path)


def milliseconds(samples):
    return samples * 1000 // RATE

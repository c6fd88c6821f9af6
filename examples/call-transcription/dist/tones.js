// Synthetic speech: every word of a small vocabulary is a tone.
export const VOCABULARY = ["hello", "thanks", "refund", "order", "please", "goodbye"];
const RATE = 8000;
const SAMPLES = 800;
const pitch = (word) => 400 + 200 * word;
/** Words as a WAV file: 8 kHz, 8 bit, one channel. */
export function encode(words) {
    const data = new Uint8Array(words.length * SAMPLES);
    words.forEach((word, position) => {
        const number = VOCABULARY.indexOf(word);
        if (number < 0)
            throw new Error(`nobody says ${word} here`);
        for (let n = 0; n < SAMPLES; n += 1) {
            data[position * SAMPLES + n] = 128 + Math.round(100 * Math.sin((2 * Math.PI * pitch(number) * (n + 0.5)) / RATE));
        }
    });
    const head = Buffer.alloc(44);
    head.write("RIFF", 0);
    head.writeUInt32LE(36 + data.length, 4);
    head.write("WAVEfmt ", 8);
    head.writeUInt32LE(16, 16);
    head.writeUInt16LE(1, 20);
    head.writeUInt16LE(1, 22);
    head.writeUInt32LE(RATE, 24);
    head.writeUInt32LE(RATE, 28);
    head.writeUInt16LE(1, 32);
    head.writeUInt16LE(8, 34);
    head.write("data", 36);
    head.writeUInt32LE(data.length, 40);
    return Buffer.concat([head, data]);
}
/** The words of such a file, by how often each tone crosses zero. */
export function decode(wav) {
    const words = [];
    for (let at = 44; at + SAMPLES <= wav.length; at += SAMPLES) {
        let crossings = 0;
        for (let n = 1; n < SAMPLES; n += 1) {
            if ((wav[at + n] ?? 128) >= 128 !== (wav[at + n - 1] ?? 128) >= 128)
                crossings += 1;
        }
        const heard = (crossings * RATE) / (2 * SAMPLES);
        words.push(VOCABULARY[Math.round((heard - 400) / 200)] ?? "?");
    }
    return words;
}

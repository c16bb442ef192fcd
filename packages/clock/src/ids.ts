import type { Clock } from "./clock.ts";

/** Crockford's base32 alphabet in lower case. It is in byte order, so ids sort by creation time. */
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/** Creates an id: the prefix, `_` and 26 base32 characters of a UUIDv7 (RFC 9562). */
export type IdSource = (prefix: string) => string;

/**
 * Returns a source of ids that strictly increase, so that the ids of a process sort in creation order. Within a millisecond, the 12 bits of
 * `rand_a` count up (RFC 9562, 6.2, method 1).
 */
export function idSource(clock: Pick<Clock, "now" | "randomBytes">): IdSource {
  let last_ms = 0;
  let counter = 0;
  return (prefix) => {
    const now = clock.now().getTime();
    if (now > last_ms) {
      last_ms = now;
      counter = clock.randomBytes(1)[0]!;
    } else {
      counter += 1;
      if (counter > 0xfff) {
        last_ms += 1;
        counter = 0;
      }
    }
    const bytes = Uint8Array.from(clock.randomBytes(16));
    let ms = last_ms;
    for (let i = 5; i >= 0; i -= 1) {
      bytes[i] = ms % 256;
      ms = Math.floor(ms / 256);
    }
    bytes[6] = 0x70 | (counter >> 8);
    bytes[7] = counter & 0xff;
    bytes[8] = 0x80 | (bytes[8]! & 0x3f);
    return `${prefix}_${base32(bytes)}`;
  };
}

/**
 * Returns a lower bound for ids with this prefix: a text that sorts after all ids created before the millisecond of `at`, and before all
 * later ids.
 */
export function idFloor(prefix: string, at: Date): string {
  let text = "";
  let ms = Math.max(0, at.getTime());
  // The first ten characters encode two zero bits and the 48 bits of the time.
  for (let i = 0; i < 10; i += 1) {
    text = ALPHABET[ms % 32] + text;
    ms = Math.floor(ms / 32);
  }
  return `${prefix}_${text}`;
}

/** Encodes 128 bits as 26 characters of 5 bits, the first two bits zero. */
function base32(bytes: Uint8Array): string {
  let text = "";
  let bits = 2;
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(value >> bits) & 31];
    }
    value &= (1 << bits) - 1;
  }
  return text;
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import fc from "fast-check";
import { ChunkError, decodeChunk, encodeChunk, SAMPLES_PER_CHUNK_MAX, type Series, SERIES_PER_CHUNK_MAX } from "./series-chunk.ts";

const START = Date.parse("2030-01-01T00:00:00Z");
const name = fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" });
const value = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.integer().map((n) => n / 10),
  fc.integer().map((n) => n / 1_000),
  fc.constantFrom(Number.NaN, Infinity, -Infinity, -0, 0, Number.MIN_VALUE, Number.MAX_VALUE, 2 ** 53),
);
/** Times in any order, as of a clock that jumps, with gaps and duplicates. */
const time = fc.oneof(
  fc.nat(100_000).map((n) => START + n),
  fc.constantFrom(0, START, 2 ** 43 - 1),
  fc.maxSafeNat().map((n) => n % 2 ** 43),
);
const series: fc.Arbitrary<Series> = fc
  .record({ name, labels: fc.dictionary(name, name, { maxKeys: 8 }), samples: fc.array(fc.tuple(time, value), { maxLength: 30 }) })
  .map(({ samples, ...rest }) => ({ ...rest, times: samples.map(([at]) => at), values: samples.map(([, of]) => of) }));

const sorted = (of: Series): unknown => ({ ...of, labels: Object.entries(of.labels).sort(([a], [b]) => (a < b ? -1 : 1)) });

test("a chunk decodes to the encoded series, bit for bit", () => {
  fc.assert(
    fc.property(fc.array(series, { maxLength: 8 }), (given) => {
      // Strict deep equality distinguishes -0 from 0 and treats NaN as equal to NaN.
      assert.deepEqual(decodeChunk(encodeChunk(given)).map(sorted), given.map(sorted));
    }),
  );
});

test("decoding arbitrary or damaged bytes fails only with a ChunkError", () => {
  const decode = (bytes: Uint8Array): void => {
    try {
      const read = decodeChunk(bytes);
      assert.ok(read.length <= SERIES_PER_CHUNK_MAX);
    } catch (error) {
      assert.ok(error instanceof ChunkError, String(error));
    }
  };
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), decode));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (body) => decode(deflateRawSync(Uint8Array.of(1, ...body)))));
  fc.assert(
    fc.property(series, fc.nat(), fc.nat(255), (given, at, byte) => {
      const bytes = encodeChunk([given]);
      bytes[at % bytes.length] = byte;
      decode(bytes);
      decode(bytes.subarray(0, at % bytes.length));
    }),
  );
});

test("refuses a chunk that decompresses to more than its bounds", () => {
  assert.throws(() => decodeChunk(deflateRawSync(Buffer.alloc(8 * 1024 * 1024))), ChunkError);
  const one = { name: "a", labels: {}, times: Array.from({ length: 100 }, (_, i) => i), values: Array.from({ length: 100 }, () => 0) };
  assert.throws(() => encodeChunk(Array.from({ length: 1 + SAMPLES_PER_CHUNK_MAX / 100 }, () => one)), /at most 10000 samples/);
  const empty = { name: "a", labels: {}, times: [], values: [] };
  assert.throws(() => encodeChunk(Array.from({ length: SERIES_PER_CHUNK_MAX + 1 }, () => empty)), /at most 1000 series/);
  assert.throws(() => encodeChunk([{ ...empty, name: "" }]), ChunkError);
  assert.throws(() => encodeChunk([{ ...empty, name: "a".repeat(129) }]), ChunkError);
  assert.throws(() => encodeChunk([{ ...one, times: [1] }]), ChunkError);
});

test("one minute of a robot's system values takes at most 3 bytes a sample", () => {
  let random = 1;
  const noise = (max: number): number => (random = (random * 48_271) % 2_147_483_647) % max;
  const times = Array.from({ length: 6 }, (_, i) => START + i * 10_000 + noise(20));
  const of = (metric: string, next: (i: number) => number, labels: Record<string, string> = {}): Series => ({
    name: metric,
    labels,
    times,
    values: times.map((_, i) => next(i)),
  });
  const gib = 1024 ** 3;
  const chunk = encodeChunk([
    of("cpu_percent", () => noise(300) / 10),
    of("load_1m", () => noise(200) / 100),
    of("memory_used_bytes", () => 2 * gib + noise(4_000) * 4_096),
    of("memory_total_bytes", () => 8 * gib),
    of("temperature_celsius", () => 48 + noise(20) / 10),
    of("battery_percent", () => 82),
    of("disk_used_bytes", (i) => 12 * gib + i * 40_960, { mount: "/" }),
    of("disk_total_bytes", () => 64 * gib, { mount: "/" }),
    of("disk_used_bytes", () => 2 * gib, { mount: "/data" }),
    of("disk_total_bytes", () => 32 * gib, { mount: "/data" }),
    of("network_receive_bytes", (i) => 5_000_000 + i * 9_000 + noise(4_000), { interface: "eth0" }),
    of("network_transmit_bytes", (i) => 8_000_000 + i * 7_000 + noise(4_000), { interface: "eth0" }),
    of("network_receive_bytes", () => 0, { interface: "wlan0" }),
    of("network_transmit_bytes", () => 0, { interface: "wlan0" }),
  ]);
  const bytes = chunk.length / (14 * times.length);
  assert.ok(bytes <= 3, `${bytes.toFixed(2)} bytes a sample`);
});

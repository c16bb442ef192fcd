import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "@roamfleet/clock";
import { closeFrame, FrameWalk } from "./frame-walk.ts";

const ROUNDS = 200;

const lengthOf = (size: number): Buffer => {
  if (size < 126) return Buffer.from([size]);
  const bytes = Buffer.alloc(size < 65_536 ? 3 : 9);
  bytes[0] = size < 65_536 ? 126 : 127;
  if (size < 65_536) bytes.writeUInt16BE(size, 1);
  else bytes.writeBigUInt64BE(BigInt(size), 1);
  return bytes;
};

/** Returns binary frames of these sizes, with small pings between them. */
const framesOf = (sizes: readonly number[], mask: boolean): Buffer[] =>
  sizes.map((size, i) => {
    const length = lengthOf(size);
    if (mask) length[0]! |= 0x80;
    const opcode = i % 5 === 4 && size < 126 ? 9 : 2;
    return Buffer.concat([Buffer.from([0x80 | opcode]), length, Buffer.alloc(mask ? 4 : 0, 255), Buffer.alloc(size, 0x88)]);
  });

/** Returns the chunk boundaries that are reported as boundaries between frames. */
function boundariesOf(bytes: Buffer, cuts: readonly number[]): number[] {
  const walk = new FrameWalk();
  const found: number[] = [];
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    walk.walk(bytes.subarray(from, to));
    from = to;
    if (walk.at_boundary) found.push(to);
  }
  return found;
}

test("finds exactly the ends of the frames, wherever the stream is split into chunks", () => {
  const random = seededRandom(7);
  const below = (n: number): number => Math.floor(random() * n);
  const sizes = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000];
  for (let round = 0; round < ROUNDS; round += 1) {
    const frames = framesOf(
      Array.from({ length: 1 + below(8) }, () => sizes[below(sizes.length)]!),
      round % 2 === 0,
    );
    const bytes = Buffer.concat(frames);
    const ends = new Set(frames.map((_, i) => Buffer.concat(frames.slice(0, i + 1)).length));
    const near = [...ends].flatMap((end) => [end - 1, end, end + 1, end + 2]);
    const anywhere = Array.from({ length: 20 }, () => below(bytes.length));
    const cuts = [...new Set([...near, ...anywhere])].filter((at) => at > 0 && at < bytes.length).toSorted((a, b) => a - b);
    assert.deepEqual(
      boundariesOf(bytes, cuts),
      [...cuts, bytes.length].filter((at) => ends.has(at)),
    );
  }
});

test("a step stops at the end of the present frame, so that another one can be inserted", () => {
  const [one, two] = framesOf([300, 5], false) as [Buffer, Buffer];
  const bytes = Buffer.concat([one, two]);
  const walk = new FrameWalk();
  walk.walk(bytes.subarray(0, 10));
  assert.equal(walk.at_boundary, false);
  assert.equal(walk.step(bytes, 10), one.length);
  assert.equal(walk.at_boundary, true);
});

test("detects a close frame at its first byte, and encodes one", () => {
  const frame = closeFrame(1013, "the server is stopping");
  const walk = new FrameWalk();
  walk.walk(frame.subarray(0, 2));
  assert.deepEqual([walk.close_seen, walk.at_boundary], [true, false]);
  walk.walk(frame.subarray(2));
  assert.deepEqual([walk.close_seen, walk.at_boundary], [true, true]);
  assert.deepEqual([frame[0], frame.readUInt16BE(2), frame.subarray(4).toString()], [0x88, 1013, "the server is stopping"]);
});

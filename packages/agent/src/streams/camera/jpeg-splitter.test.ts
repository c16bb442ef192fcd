import assert from "node:assert/strict";
import { test } from "node:test";
import { CAMERA_FRAME_BYTES_MAX } from "@roamfleet/protocol/link";
import { jpegOf, JpegSplitter } from "./jpeg-splitter.ts";

const SOI = [0xff, 0xd8];
const EOI = [0xff, 0xd9];
const segment = (code: number, payload: readonly number[]): number[] => [
  0xff,
  code,
  (payload.length + 2) >> 8,
  (payload.length + 2) & 0xff,
  ...payload,
];
/** Stuffed bytes, restart markers and fill bytes among compressed data. */
const DATA = [1, 2, 0xff, 0x00, 3, 0xff, 0xd0, 4, 0xff, 0x00, 0xd9, 0xff, 0xff, 0xd7];
/** Contains a thumbnail, an end-of-image marker in a table and in a scan's header, and two scans. */
const tricky = (extra: readonly number[] = []): Buffer => {
  const thumbnail = [...SOI, ...segment(0xda, [1]), 7, 7, ...EOI, ...SOI, ...EOI];
  const head = [...SOI, ...segment(0xe1, thumbnail), 0xff, ...segment(0xdb, EOI)];
  return Buffer.from([...head, ...segment(0xda, [1, 2, 3]), ...DATA, ...extra, ...segment(0xda, EOI), 5, 0xff, ...EOI]);
};
const plain = (fill: number, length = 20): Buffer =>
  Buffer.from([...SOI, ...segment(0xda, [1]), ...Array.from({ length }, () => fill), ...EOI]);

function split(bytes: Uint8Array, chunk: number): { jpegs: string[]; refused: number } {
  const jpegs: string[] = [];
  let refused = 0;
  const splitter = new JpegSplitter(
    (jpeg) => jpegs.push(Buffer.from(jpeg).toString("hex")),
    () => (refused += 1),
  );
  for (let at = 0; at < bytes.length; at += chunk) {
    // The memory of a chunk is reused, as with a pipe.
    const part = Buffer.from(bytes.subarray(at, at + chunk));
    splitter.push(part);
    part.fill(0xd8);
  }
  return { jpegs, refused };
}
const hex = (...jpegs: Buffer[]): string[] => jpegs.map((jpeg) => jpeg.toString("hex"));

test("splits a stream into JPEG pictures at any chunk boundary", () => {
  const pictures = [tricky(), plain(9), tricky([8, 8]), plain(0)];
  const bytes = Buffer.concat(pictures);
  for (let chunk = 1; chunk <= bytes.length; chunk += 1)
    assert.deepEqual(split(bytes, chunk).jpegs, hex(...pictures), `chunks of ${chunk}`);
});

test("skips data between JPEG pictures, such as multipart headers", () => {
  const between = Buffer.from("\r\n--myboundary\r\nContent-Type: image/jpeg\r\nContent-Length: 27\r\n\r\n");
  const bytes = Buffer.concat([between, plain(1), between, Buffer.from([0xff, 0xff, 0x00, 0xff]), plain(2), between]);
  for (const chunk of [1, 2, 3, 7, 1000]) assert.deepEqual(split(bytes, chunk).jpegs, hex(plain(1), plain(2)));
});

test("returns complete pictures again after a truncated JPEG", () => {
  const cuts = Array.from({ length: tricky().length - 2 }, (_, i) => i + 2);
  for (const cut of cuts) {
    const cut_off = tricky().subarray(0, cut);
    // The length of a truncated segment may skip 64 KiB.
    const { jpegs } = split(Buffer.concat([cut_off, plain(1, 70_000), plain(2), plain(3)]), 4_001);
    assert.deepEqual(jpegs.slice(-2), hex(plain(2), plain(3)), `cut at ${cut}`);
  }
});

test("rejects a JPEG picture over the size limit and continues with the next picture", () => {
  const huge = plain(3, CAMERA_FRAME_BYTES_MAX);
  assert.deepEqual(split(Buffer.concat([huge, plain(4)]), 65_536), { jpegs: hex(plain(4)), refused: 1 });
  const largest = plain(3, CAMERA_FRAME_BYTES_MAX - plain(3, 0).length);
  assert.equal(largest.length, CAMERA_FRAME_BYTES_MAX);
  assert.deepEqual(split(largest, 65_536), { jpegs: hex(largest), refused: 0 });
});

test("returns the JPEG picture at the beginning of the bytes", () => {
  assert.deepEqual(Buffer.from(jpegOf(Buffer.concat([plain(1), Buffer.from("tail")]))!), plain(1));
  for (const none of [Buffer.alloc(0), Buffer.from("x"), Buffer.concat([Buffer.from("x"), plain(1)]), plain(1).subarray(0, -1)])
    assert.equal(jpegOf(none), undefined);
});

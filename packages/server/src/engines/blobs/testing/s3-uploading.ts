import { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { systemClock } from "@roamfleet/clock";
import { s3Blobs } from "../s3-blobs.ts";
import type { S3Settings } from "../s3-store.ts";
import { patternAt } from "./s3-server.ts";

// A process that uploads until it is killed: node s3-uploading.ts receive|append SETTINGS.

const CHUNK_BYTES = 256 * 1024;
const [mode, settings = ""] = process.argv.slice(2);
const log = { info() {}, warn() {}, error() {} };
const blobs = await s3Blobs(JSON.parse(settings) as S3Settings, { clock: systemClock, log });

async function* endless(from: number): AsyncGenerator<Buffer> {
  for (let at = from; ; at += CHUNK_BYTES) {
    yield patternAt(at, CHUNK_BYTES);
    await wait(1);
  }
}

const offset = mode === "append" ? await blobs.uploaded("org_1/rel_1") : 0;
process.stdout.write("going\n");
if (mode === "append") await blobs.append("org_1/rel_1", Readable.from(endless(offset)), { offset, max_bytes: 2 ** 33 });
else await blobs.receive(Readable.from(endless(0)), { max_bytes: 2 ** 33 });

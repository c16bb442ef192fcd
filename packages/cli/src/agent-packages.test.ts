import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { createClient } from "@roamfleet/sdk";
import { downloadTarball } from "./agent-packages.ts";

const LIMIT = { timeout: 30_000 };
const BYTES = Buffer.alloc(100_000, 7);
const TARBALL = { name: "agent.tar.gz", version: "1.2.3", arch: "amd64", size: BYTES.length, sha256: hash("sha256", BYTES) };

/** Starts a server that sends these bytes. Unless `ends`, the response then stalls. */
async function startServer(t: TestContext, bytes: Buffer, ends = true) {
  const server = createServer((_, response) => {
    response.write(bytes);
    if (ends) response.end();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return createClient({ base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

test("downloads an agent tarball and deletes it afterwards", LIMIT, async (t) => {
  const options = {
    clock: new SimulatedClock({ at: "2030-01-01T00:00:00Z" }),
    signal: new AbortController().signal,
    on_progress: () => {},
  };
  const downloaded = await downloadTarball(await startServer(t, BYTES), TARBALL, options);
  assert.deepEqual(readFileSync(downloaded.file), BYTES);
  await downloaded[Symbol.asyncDispose]();
  assert.equal(existsSync(downloaded.file), false);
});

test("an agent download fails if the content or size is wrong, or if it stalls or is interrupted", LIMIT, async (t) => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const interrupted = new AbortController();
  const { signal } = new AbortController();
  const ignore = (): void => {};
  const other = await startServer(t, Buffer.alloc(BYTES.length, 8));
  await assert.rejects(downloadTarball(other, TARBALL, { clock, signal, on_progress: ignore }), /checksum differs/);
  const longer = await startServer(t, Buffer.alloc(BYTES.length + 1, 7));
  await assert.rejects(downloadTarball(longer, TARBALL, { clock, signal, on_progress: ignore }), /more than 100000 bytes/);
  const half = await startServer(t, BYTES.subarray(50_000), false);
  // The timer for the next bytes starts before the progress is reported.
  const pass = (done: number): void => void (done === 50_000 && setImmediate(() => void clock.advance({ seconds: 60 })));
  await assert.rejects(downloadTarball(half, TARBALL, { clock, signal, on_progress: pass }), /no bytes arrived for 60 s/);
  const stop = (done: number): void => void (done === 50_000 && interrupted.abort());
  await assert.rejects(
    downloadTarball(half, TARBALL, { clock, signal: interrupted.signal, on_progress: stop }),
    /interrupted during the download of agent.tar.gz/,
  );
});

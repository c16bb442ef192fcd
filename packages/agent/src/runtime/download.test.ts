import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { type Clock, systemClock } from "@roamfleet/clock";
import { ArtifactServer, plainFetcher } from "../testing/artifact-server.ts";
import { QUICK } from "../testing/deployments-rig.ts";
import { downloadArtifact } from "./download.ts";
import { StepAborted, StepFailure } from "./failure.ts";
import type { Fetcher } from "../contract.ts";
import { TIMING, type Timing } from "./limits.ts";

const SIZE = 300_000;
const bytes = randomBytes(SIZE);
const sha256 = createHash("sha256").update(bytes).digest("hex");

let directory: string;
let server: ArtifactServer;
beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-download-"));
  server = await ArtifactServer.start();
  server.add(bytes);
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  fs.rmSync(directory, { recursive: true, force: true });
});

function download(
  more: {
    timing?: Partial<Timing>;
    signal?: AbortSignal;
    size?: number;
    progress?: (done: number) => void;
    fetcher?: Fetcher;
    clock?: Clock;
  } = {},
): Promise<string> {
  const { timing, signal = new AbortController().signal, size = SIZE, progress = () => {} } = more;
  const { fetcher = plainFetcher(server.origin), clock = systemClock } = more;
  const options = {
    directory,
    fetcher,
    clock,
    timing: { ...TIMING, ...QUICK, ...timing },
    signal,
    progress,
  };
  return downloadArtifact({ sha256, size }, options);
}

const failsWith =
  (reason: string) =>
  (error: unknown): boolean =>
    error instanceof StepFailure && error.reason === reason;

test("an artifact is downloaded completely under its digest, and its progress ends at its size", async () => {
  const seen: number[] = [];
  const file = await download({ progress: (done) => seen.push(done) });
  assert.equal(path.basename(file), sha256);
  assert.ok(fs.readFileSync(file).equals(bytes));
  assert.equal(seen.at(-1), SIZE);
});

test("an interrupted download resumes where it stopped, each time", async () => {
  const part = path.join(directory, `${sha256}.part`);
  const written = (): number => fs.statSync(part, { throwIfNoEntry: false })?.size ?? 0;
  server.trouble = ({ start }) => (server.requests.length < 8 ? { cut_after: 20_000, once: () => written() > start } : undefined);
  assert.ok(fs.readFileSync(await download()).equals(bytes));
  assert.ok(server.requests.slice(1).some(({ start }) => start > 0));
  assert.ok(server.requests.every(({ start }, index) => index === 0 || start >= server.requests[index - 1]!.start));
});

test("a partial download of an earlier agent is resumed", async () => {
  fs.writeFileSync(path.join(directory, `${sha256}.part`), bytes.subarray(0, 100_000));
  assert.ok(fs.readFileSync(await download()).equals(bytes));
  assert.deepEqual(
    server.requests.map(({ start }) => start),
    [100_000],
  );
});

test("a download with a damaged beginning restarts once from the first byte", async () => {
  fs.writeFileSync(path.join(directory, `${sha256}.part`), Buffer.alloc(100_000));
  assert.ok(fs.readFileSync(await download()).equals(bytes));
  assert.deepEqual(
    server.requests.map(({ start }) => start),
    [100_000, 0],
  );
});

test("wrong bytes twice are a digest mismatch, and no file gets the artifact's name", async () => {
  const wrong = Buffer.from(bytes);
  wrong[1_000]! ^= 1;
  server.trouble = ({ start }) => ({ bytes: wrong.subarray(start) });
  await assert.rejects(download(), failsWith("digest_mismatch"));
  assert.equal(server.requests.length, 2);
  assert.ok(!fs.existsSync(path.join(directory, sha256)));
});

test("more bytes than the release names are refused without being kept", async () => {
  server.trouble = () => ({ bytes: Buffer.concat([bytes, Buffer.alloc(1_000_000)]) });
  await assert.rejects(download(), failsWith("digest_mismatch"));
  assert.ok(fs.statSync(path.join(directory, `${sha256}.part`)).size <= SIZE);
});

test("a download fails after a bounded number of responses without a byte", async () => {
  server.trouble = () => ({ status: 500 });
  await assert.rejects(
    download({ timing: { download_tries: 4 } }),
    (error: unknown) => failsWith("download_failed")(error) && /4 attempts.*500/.test(String(error)),
  );
  assert.equal(server.requests.length, 4);
});

/** A clock whose sleeps take no time and are recorded. */
function sleepless(slept: (total_ms: number) => void = () => {}): { clock: Clock; waits: number[] } {
  const waits: number[] = [];
  const sleep = async (ms: number): Promise<void> => slept(waits.push(ms) && waits.reduce((sum, wait) => sum + wait));
  return { clock: { ...systemClock, sleep }, waits };
}

for (const status of [429, 502, 503, 504]) {
  test(`a server that says "not now" (${status}) for longer than the number of attempts is retried after its requested waits`, async () => {
    const put_off = TIMING.download_tries + 15;
    server.trouble = () => (server.requests.length <= put_off ? { status, headers: { "retry-after": "90" } } : undefined);
    const { clock, waits } = sleepless();
    assert.ok(fs.readFileSync(await download({ clock, timing: TIMING })).equals(bytes));
    assert.equal(waits.length, put_off);
    assert.ok(
      waits.every((ms) => ms >= 90_000 && ms <= 135_000),
      String(waits),
    );
  });
}

test("a refusal without Retry-After backs off up to a minute, and ends with the step's timeout", async () => {
  server.trouble = () => ({ status: 503 });
  const step = new AbortController();
  const deadline_ms = 2 * 3_600_000;
  const { clock, waits } = sleepless((total_ms) => {
    if (total_ms > deadline_ms) step.abort(new StepFailure("timeout", "the step took too long"));
  });
  await assert.rejects(download({ clock, signal: step.signal, timing: TIMING }), failsWith("timeout"));
  assert.ok(
    waits.length > 4 * TIMING.download_tries && waits.length <= deadline_ms / (TIMING.retry_last_ms / 2) + 10,
    String(waits.length),
  );
  assert.ok((waits[0] ?? 0) < 2_500 && waits.slice(8).every((ms) => ms >= 30_000 && ms <= 60_000), String(waits));
});

test("responses without a byte are counted across responses with Retry-After, and a received byte resets the count", async () => {
  const tries = 4;
  const putOff = (): { status: number } | undefined => (server.requests.length % 2 === 0 ? { status: 503 } : undefined);
  const { clock } = sleepless();
  server.trouble = () => putOff() ?? { status: 500 };
  await assert.rejects(download({ clock, timing: { download_tries: tries } }), failsWith("download_failed"));
  assert.equal(server.requests.length, 2 * tries - 1);

  server.requests.length = 0;
  const part = path.join(directory, `${sha256}.part`);
  const written = (): number => fs.statSync(part, { throwIfNoEntry: false })?.size ?? 0;
  server.trouble = ({ start }) => {
    if (start >= 200_000) return undefined;
    return putOff() ?? (server.requests.length % 3 === 0 ? { cut_after: 40_000, once: () => written() > start } : { status: 500 });
  };
  assert.ok(fs.readFileSync(await download({ clock, timing: { download_tries: tries } })).equals(bytes));
  assert.ok(server.requests.length > 2 * tries);
});

test("a download from a server that only has a part fails", async () => {
  server.trouble = ({ start }) => (start >= 1_000 ? { status: 416 } : { bytes: bytes.subarray(start, 1_000) });
  await assert.rejects(download({ timing: { download_tries: 4 } }), failsWith("download_failed"));
});

test("a robot without network retries until the network is back", async () => {
  let unreachable = 20;
  const there = plainFetcher(server.origin);
  const fetcher: Fetcher = {
    get: (path, options) => (unreachable-- > 0 ? Promise.reject(new Error("no route to host")) : there.get(path, options)),
  };
  assert.ok(fs.readFileSync(await download({ fetcher, timing: { download_tries: 2 } })).equals(bytes));
});

test("a response that stalls is aborted and retried", async () => {
  server.trouble = () => (server.requests.length === 1 ? "hang" : undefined);
  assert.ok(fs.readFileSync(await download({ timing: { download_stall_ms: 50, download_tries: 1_000 } })).equals(bytes));
});

test("an aborted download ends immediately and keeps its partial file", async () => {
  const abort = new AbortController();
  const part = path.join(directory, `${sha256}.part`);
  const arrived = (): boolean => (fs.statSync(part, { throwIfNoEntry: false })?.size ?? 0) > 0;
  server.trouble = ({ start }) => (start > 0 ? "hang" : { cut_after: 50_000, once: arrived });
  const running = download({ signal: abort.signal, timing: { download_stall_ms: 10_000 } });
  const check = setInterval(() => server.requests.some(({ start }) => start > 0) && abort.abort(), 5);
  await assert.rejects(running, StepAborted).finally(() => clearInterval(check));
  assert.ok(arrived());
});

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { ByteRate, type Clock, systemClock } from "@roamfleet/clock";
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
    rate?: ByteRate;
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
    rate: more.rate,
  };
  return downloadArtifact({ sha256, size }, options);
}

const failsWith =
  (reason: string) =>
  (error: unknown): boolean =>
    error instanceof StepFailure && error.reason === reason;

test("stores a downloaded artifact under its digest and reports progress up to its size", async () => {
  const seen: number[] = [];
  const file = await download({ progress: (done) => seen.push(done) });
  assert.equal(path.basename(file), sha256);
  assert.ok(fs.readFileSync(file).equals(bytes));
  assert.equal(seen.at(-1), SIZE);
});

test("a download that is interrupted several times resumes at its offset each time", async () => {
  const part = path.join(directory, `${sha256}.part`);
  const written = (): number => fs.statSync(part, { throwIfNoEntry: false })?.size ?? 0;
  server.trouble = ({ start }) => (server.requests.length < 8 ? { cut_after: 20_000, once: () => written() > start } : undefined);
  assert.ok(fs.readFileSync(await download()).equals(bytes));
  assert.ok(server.requests.slice(1).some(({ start }) => start > 0));
  assert.ok(server.requests.every(({ start }, index) => index === 0 || start >= server.requests[index - 1]!.start));
});

test("resumes a partial download that an earlier agent process left", async () => {
  fs.writeFileSync(path.join(directory, `${sha256}.part`), bytes.subarray(0, 100_000));
  assert.ok(fs.readFileSync(await download()).equals(bytes));
  assert.deepEqual(
    server.requests.map(({ start }) => start),
    [100_000],
  );
});

test("restarts a download from the first byte if the partial file is damaged", async () => {
  fs.writeFileSync(path.join(directory, `${sha256}.part`), Buffer.alloc(100_000));
  assert.ok(fs.readFileSync(await download()).equals(bytes));
  assert.deepEqual(
    server.requests.map(({ start }) => start),
    [100_000, 0],
  );
});

test("fails with digest_mismatch after two downloads with wrong bytes", async () => {
  const wrong = Buffer.from(bytes);
  wrong[1_000]! ^= 1;
  server.trouble = ({ start }) => ({ bytes: wrong.subarray(start) });
  await assert.rejects(download(), failsWith("digest_mismatch"));
  assert.equal(server.requests.length, 2);
  assert.ok(!fs.existsSync(path.join(directory, sha256)));
});

test("rejects an artifact that is larger than the release states", async () => {
  server.trouble = () => ({ bytes: Buffer.concat([bytes, Buffer.alloc(1_000_000)]) });
  await assert.rejects(download(), failsWith("digest_mismatch"));
  assert.ok(fs.statSync(path.join(directory, `${sha256}.part`)).size <= SIZE);
});

test("a download fails after a limited number of responses without data", async () => {
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
  test(`a download refused with ${status} and Retry-After is retried beyond the maximum number of attempts`, async () => {
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

test("retries 503 without Retry-After with backoff up to a minute until the step times out", async () => {
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

test("received bytes reset the count of failed download attempts, a 503 response does not", async () => {
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

test("a download fails if the server has only a part of the artifact", async () => {
  server.trouble = ({ start }) => (start >= 1_000 ? { status: 416 } : { bytes: bytes.subarray(start, 1_000) });
  await assert.rejects(download({ timing: { download_tries: 4 } }), failsWith("download_failed"));
});

test("retries a download without a network until the network is back", async () => {
  let unreachable = 20;
  const there = plainFetcher(server.origin);
  const fetcher: Fetcher = {
    get: (path, options) => (unreachable-- > 0 ? Promise.reject(new Error("no route to host")) : there.get(path, options)),
  };
  assert.ok(fs.readFileSync(await download({ fetcher, timing: { download_tries: 2 } })).equals(bytes));
});

test("a download with a limited rate waits for the bytes beyond the first second", async () => {
  let now = 0;
  const sleep = async (ms: number): Promise<void> => void (now += ms);
  const clock = { ...systemClock, sleep, monotonic: () => now };
  const rate = new ByteRate(SIZE / 10, 0);
  assert.ok(fs.readFileSync(await download({ clock, rate })).equals(bytes));
  assert.ok(Math.abs(now - 9_000) < 1, String(now));
});

test("aborts and retries a download that stalls", async () => {
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

import { createHash } from "node:crypto";
import type { Clock, Fetcher } from "../contract.ts";
import { discardBody } from "../runtime/download.ts";
import { errorMessage, StepFailure, throwIfAborted } from "../runtime/failure.ts";
import { CONFIG_BYTES_MAX, type Timing } from "../runtime/limits.ts";
import { isNotNow, NotNow } from "../runtime/not-now.ts";

export interface FetchConfigOptions {
  fetcher: Fetcher;
  clock: Clock;
  timing: Timing;
  signal: AbortSignal;
}

/**
 * Fetches a namespace's effective values until they are the bytes that the server announced: between two
 * announcements it may answer newer ones. A server that is out of reach, or asks to come back later, is asked until the
 * step as a whole has taken too long; answers count. Throws StepFailure (`download_failed`, `digest_mismatch`) after
 * bounded ones, or StepAborted.
 */
export async function fetchConfig(namespace: string, sha256: string, options: FetchConfigOptions): Promise<Buffer> {
  const { clock, timing, signal } = options;
  for (let [tries, answers] = [1, 0]; ; tries += 1) {
    throwIfAborted(signal);
    let failure: StepFailure;
    let asked_wait_ms = 0;
    try {
      const bytes = await fetchOnce(namespace, { ...options, on_answer: () => (answers += 1) });
      if (createHash("sha256").update(bytes).digest("hex") === sha256) return bytes;
      failure = new StepFailure("digest_mismatch", `the server answers other bytes than those of SHA-256 ${sha256}`);
    } catch (error) {
      if (error instanceof NotNow) asked_wait_ms = error.wait_ms;
      failure = new StepFailure("download_failed", `the config could not be fetched: ${errorMessage(error)}`);
    }
    throwIfAborted(signal);
    if (answers >= timing.download_tries) throw failure;
    const ceiling = Math.min(timing.retry_last_ms, timing.retry_first_ms * 2 ** Math.min(tries - 1, 16));
    // Later than asked by up to a half: robots that were put off together do not come back together.
    await clock.sleep(Math.max(ceiling * (0.5 + clock.random() / 2), asked_wait_ms * (1 + clock.random() / 2)), signal);
  }
}

async function fetchOnce(
  namespace: string,
  { fetcher, clock, timing, signal, on_answer }: FetchConfigOptions & { on_answer: () => void },
): Promise<Buffer> {
  const cut = new AbortController();
  const timer = clock.setTimer(timing.download_stall_ms, () =>
    cut.abort(new Error(`no whole answer within ${timing.download_stall_ms} ms`)),
  );
  const both = AbortSignal.any([signal, cut.signal]);
  try {
    const response = await fetcher.get(`/agent/configs/${encodeURIComponent(namespace)}`, { signal: both });
    if (isNotNow(response)) {
      await discardBody(response.body);
      throw new NotNow(response, clock);
    }
    on_answer();
    if (response.status !== 200) {
      await discardBody(response.body);
      throw new Error(`the server answered ${response.status}`);
    }
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of response.body) {
      if (both.aborted) throw both.reason;
      bytes += chunk.length;
      if (bytes > CONFIG_BYTES_MAX) throw new Error(`the config is larger than ${CONFIG_BYTES_MAX} bytes`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } finally {
    timer.cancel();
  }
}

import { createHash } from "node:crypto";
import type { Clock, Fetcher } from "../contract.ts";
import { discardBody } from "../runtime/download.ts";
import { errorMessage, StepFailure, throwIfAborted } from "../runtime/failure.ts";
import { CONFIG_BYTES_MAX, type Timing } from "../runtime/limits.ts";

export interface FetchConfigOptions {
  fetcher: Fetcher;
  clock: Clock;
  timing: Timing;
  signal: AbortSignal;
}

/**
 * Fetches a namespace's effective values until they are the bytes that the server announced: between two
 * announcements it may answer newer ones. Throws StepFailure (`download_failed`, `digest_mismatch`) after bounded
 * tries, or StepAborted.
 */
export async function fetchConfig(namespace: string, sha256: string, options: FetchConfigOptions): Promise<Buffer> {
  const { clock, timing, signal } = options;
  let failure = new StepFailure("download_failed", "the config was never asked for");
  for (let tries = 1; tries <= timing.download_tries; tries += 1) {
    throwIfAborted(signal);
    try {
      const bytes = await fetchOnce(namespace, options);
      if (createHash("sha256").update(bytes).digest("hex") === sha256) return bytes;
      failure = new StepFailure("digest_mismatch", `the server answers other bytes than those of SHA-256 ${sha256}`);
    } catch (error) {
      failure = new StepFailure("download_failed", `the config could not be fetched: ${errorMessage(error)}`);
    }
    throwIfAborted(signal);
    const ceiling = Math.min(timing.retry_last_ms, timing.retry_first_ms * 2 ** Math.min(tries - 1, 16));
    if (tries < timing.download_tries) await clock.sleep(ceiling * (0.5 + clock.random() / 2), signal);
  }
  throwIfAborted(signal);
  throw failure;
}

async function fetchOnce(namespace: string, { fetcher, clock, timing, signal }: FetchConfigOptions): Promise<Buffer> {
  const cut = new AbortController();
  const timer = clock.setTimer(timing.download_stall_ms, () =>
    cut.abort(new Error(`no whole answer within ${timing.download_stall_ms} ms`)),
  );
  const both = AbortSignal.any([signal, cut.signal]);
  try {
    const response = await fetcher.get(`/agent/configs/${encodeURIComponent(namespace)}`, { signal: both });
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

import { createHash } from "node:crypto";
import type { Clock, Fetcher } from "../contract.ts";
import { fetchWhole } from "../runtime/fetch-whole.ts";
import { errorMessage, StepFailure, throwIfAborted } from "../runtime/failure.ts";
import { CONFIG_BYTES_MAX, type Timing } from "../runtime/limits.ts";
import { NotNow } from "../runtime/not-now.ts";

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
  const { fetcher, clock, timing, signal } = options;
  for (let [tries, answers] = [1, 0]; ; tries += 1) {
    throwIfAborted(signal);
    let failure: StepFailure;
    let asked_wait_ms = 0;
    try {
      const bytes = await fetchWhole(`/agent/configs/${encodeURIComponent(namespace)}`, {
        fetcher,
        clock,
        signal,
        within_ms: timing.download_stall_ms,
        bytes_max: CONFIG_BYTES_MAX,
        on_answer: () => (answers += 1),
      });
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

import { createHash } from "node:crypto";
import type { Clock, Fetcher } from "../contract.ts";
import { fetchWhole } from "../runtime/fetch-whole.ts";
import { errorMessage, StepFailure, throwIfAborted } from "../runtime/failure.ts";
import { CONFIG_BYTES_MAX, type Timing } from "../runtime/limits.ts";
import { RetryLater } from "../runtime/not-now.ts";

export interface FetchConfigOptions {
  fetcher: Fetcher;
  clock: Clock;
  timing: Timing;
  signal: AbortSignal;
}

/**
 * Downloads a namespace's effective values until they match the announced digest: before the next announcement the server may already return newer
 * ones. An unreachable server, and one that answers with Retry-After, is asked again until the step's time limit. Other responses count as attempts:
 * after a bounded number it throws StepFailure (`download_failed`, `digest_mismatch`). Throws StepAborted on abort.
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
      failure = new StepFailure("digest_mismatch", `the server's bytes do not have the SHA-256 ${sha256}`);
    } catch (error) {
      if (error instanceof RetryLater) asked_wait_ms = error.wait_ms;
      failure = new StepFailure("download_failed", `the config could not be fetched: ${errorMessage(error)}`);
    }
    throwIfAborted(signal);
    if (answers >= timing.download_tries) throw failure;
    const ceiling = Math.min(timing.retry_last_ms, timing.retry_first_ms * 2 ** Math.min(tries - 1, 16));
    // Up to one and a half times the wait that the server asked for, so that delayed robots do not return at the same time.
    await clock.sleep(Math.max(ceiling * (0.5 + clock.random() / 2), asked_wait_ms * (1 + clock.random() / 2)), signal);
  }
}

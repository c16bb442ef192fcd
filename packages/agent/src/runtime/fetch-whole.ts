import type { Clock, Fetcher } from "../contract.ts";
import { discardBody } from "./download.ts";
import { asksToRetryLater, RetryLater } from "./not-now.ts";

export interface FetchWholeOptions {
  fetcher: Fetcher;
  clock: Clock;
  signal: AbortSignal;
  /** Time limit for the complete response. */
  within_ms: number;
  bytes_max: number;
  /** Called when the server has sent a response other than Retry-After. */
  on_answer?: () => void;
}

/**
 * Sends one signed GET and returns its small response completely. Throws RetryLater if the server sends Retry-After, otherwise an Error with the cause.
 */
export async function fetchWhole(path: string, options: FetchWholeOptions): Promise<Buffer> {
  const { fetcher, clock, within_ms, bytes_max } = options;
  const late = new AbortController();
  const timer = clock.setTimer(within_ms, () => late.abort(new Error(`no complete response within ${within_ms} ms`)));
  const signal = AbortSignal.any([options.signal, late.signal]);
  try {
    const answer = await fetcher.get(path, { signal });
    if (asksToRetryLater(answer)) {
      await discardBody(answer.body);
      throw new RetryLater(answer, clock);
    }
    options.on_answer?.();
    if (answer.status !== 200) {
      await discardBody(answer.body);
      throw new Error(`the server answered ${answer.status}`);
    }
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of answer.body) {
      if (signal.aborted) throw signal.reason;
      bytes += chunk.length;
      if (bytes > bytes_max) throw new Error(`the response is larger than ${bytes_max} bytes`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } finally {
    timer.cancel();
  }
}

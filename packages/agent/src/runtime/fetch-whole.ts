import type { Clock, Fetcher } from "../contract.ts";
import { discardBody } from "./download.ts";
import { isNotNow, NotNow } from "./not-now.ts";

export interface FetchWholeOptions {
  fetcher: Fetcher;
  clock: Clock;
  signal: AbortSignal;
  /** The whole answer must be there by then. */
  within_ms: number;
  bytes_max: number;
  /** The server said something of what was asked for. */
  on_answer?: () => void;
}

/** One signed GET whose answer is small and wanted whole. Throws NotNow when the server puts the robot off, else an Error that says what went wrong. */
export async function fetchWhole(path: string, options: FetchWholeOptions): Promise<Buffer> {
  const { fetcher, clock, within_ms, bytes_max } = options;
  const late = new AbortController();
  const timer = clock.setTimer(within_ms, () => late.abort(new Error(`no whole answer within ${within_ms} ms`)));
  const signal = AbortSignal.any([options.signal, late.signal]);
  try {
    const answer = await fetcher.get(path, { signal });
    if (isNotNow(answer)) {
      await discardBody(answer.body);
      throw new NotNow(answer, clock);
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
      if (bytes > bytes_max) throw new Error(`the answer is larger than ${bytes_max} bytes`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } finally {
    timer.cancel();
  }
}

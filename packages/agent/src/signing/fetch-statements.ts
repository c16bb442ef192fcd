import type { Clock, Fetcher } from "../contract.ts";
import { discardBody } from "../runtime/download.ts";

const ANSWER_BYTES_MAX = 4 * 1024 * 1024;
const ANSWER_WITHIN_MS = 15_000;

/** Statements of signing keys above a serial number, as the server has them: nothing of them is proven yet. Throws when it does not answer. */
export async function fetchStatements(
  after: number,
  { fetcher, clock, signal }: { fetcher: Fetcher; clock: Clock; signal: AbortSignal },
): Promise<unknown[]> {
  const late = new AbortController();
  const timer = clock.setTimer(ANSWER_WITHIN_MS, () => late.abort(new Error(`no answer within ${ANSWER_WITHIN_MS / 1_000} s`)));
  const both = AbortSignal.any([signal, late.signal]);
  try {
    const answer = await fetcher.get(`/agent/signing?after=${after}`, { signal: both });
    if (answer.status !== 200) {
      await discardBody(answer.body);
      throw new Error(`the server answered ${answer.status}`);
    }
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of answer.body) {
      if (both.aborted) throw both.reason;
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES_MAX) throw new Error(`the answer is larger than ${ANSWER_BYTES_MAX} bytes`);
      chunks.push(chunk);
    }
    const { items } = JSON.parse(Buffer.concat(chunks).toString()) as { items?: unknown };
    return Array.isArray(items) ? items : [];
  } finally {
    timer.cancel();
  }
}

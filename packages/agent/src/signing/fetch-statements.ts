import type { Clock, Fetcher } from "../contract.ts";
import { fetchWhole } from "../runtime/fetch-whole.ts";

const ANSWER_BYTES_MAX = 4 * 1024 * 1024;
const ANSWER_WITHIN_MS = 15_000;

/** Returns the server's statements of signing keys above a serial number, unverified. Throws if the server does not answer. */
export async function fetchStatements(after: number, options: { fetcher: Fetcher; clock: Clock; signal: AbortSignal }): Promise<unknown[]> {
  const bounds = { within_ms: ANSWER_WITHIN_MS, bytes_max: ANSWER_BYTES_MAX };
  const answer = await fetchWhole(`/agent/signing?after=${after}`, { ...options, ...bounds });
  const { items } = JSON.parse(answer.toString()) as { items?: unknown };
  return Array.isArray(items) ? items : [];
}

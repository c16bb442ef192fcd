import type { ReportBody } from "@roamfleet/protocol/link";

/** Limits of the protocol. A report over them would be refused each time it is sent, and block all later ones. */
const MESSAGE_CHARACTERS_MAX = 4_000;
const REASON_CHARACTERS_MAX = 100;

/** Returns the report with texts truncated to the server's limits. */
export function boundedBody(body: ReportBody): ReportBody {
  if (body.kind !== "target") return body;
  const bounded = { ...body };
  if (bounded.message !== undefined) bounded.message = cut(bounded.message, MESSAGE_CHARACTERS_MAX);
  if (bounded.reason !== undefined) bounded.reason = cut(bounded.reason, REASON_CHARACTERS_MAX);
  return bounded;
}

const cut = (text: string, characters_max: number): string => text.slice(0, characters_max).toWellFormed();

import type { ReportBody } from "@roamfleet/protocol/link";

/** The protocol's bounds: a report over them would be refused each time it is sent, and hold up all that come after it. */
const MESSAGE_CHARACTERS_MAX = 4_000;
const REASON_CHARACTERS_MAX = 100;

/** The same report with texts that the server takes, whatever a workload or an error put into them. */
export function boundedBody(body: ReportBody): ReportBody {
  if (body.kind !== "target") return body;
  const bounded = { ...body };
  if (bounded.message !== undefined) bounded.message = cut(bounded.message, MESSAGE_CHARACTERS_MAX);
  if (bounded.reason !== undefined) bounded.reason = cut(bounded.reason, REASON_CHARACTERS_MAX);
  return bounded;
}

const cut = (text: string, characters_max: number): string => text.slice(0, characters_max).toWellFormed();

import type { IncomingMessage } from "node:http";
import type { Plane } from "../../context.ts";
import { appendAudit, type AuditEntry, pathWithoutQuery, sessionOf, userAgentOf } from "../../kernel/audit.ts";
import type { Admitted } from "./admit.ts";

type StreamEntry = Omit<AuditEntry, "action" | "status">;

/** Writes that a stream is opened, before anything of it is: who watched is known also when the server dies meanwhile. */
export async function tellOpened(plane: Plane, request: IncomingMessage, admitted: Admitted, request_id: string): Promise<StreamEntry> {
  const { caller, ip, kind, robot_id } = admitted;
  const entry: StreamEntry = {
    org_id: caller.org_id,
    actor: caller.actor,
    token_id: caller.token_id,
    method: "GET",
    path: pathWithoutQuery(request.url ?? ""),
    object_id: robot_id,
    error: null,
    ip,
    user_agent: userAgentOf(request.headers),
    request_id,
    data: { stream: kind.name, ...sessionOf(caller) },
  };
  await appendAudit(plane.db.forOrg(entry.org_id), plane, { ...entry, action: "stream.opened", status: null });
  return entry;
}

/** Writes that it is over, and how. */
export async function tellClosed(plane: Plane, entry: StreamEntry, code: number): Promise<void> {
  try {
    await appendAudit(plane.db.forOrg(entry.org_id), plane, { ...entry, action: "stream.closed", status: code });
  } catch (error) {
    plane.log.error({ err: error, request_id: entry.request_id }, "the end of a stream could not be written into the audit");
  }
}

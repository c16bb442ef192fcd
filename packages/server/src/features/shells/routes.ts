import { Readable } from "node:stream";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { routes, type ShellSession } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { found, notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { pages, readPage } from "../../kernel/page.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { requireRobot } from "../robots/index.ts";
import { chunksAfter, findSession, listAllSessions, listSessions, type NamedSessionRow, type SessionRow } from "./store.ts";

/** Number of chunks of a recording in one read. A chunk is at most as large as the recorder's buffer. */
const CHUNKS_AT_A_TIME = 8;
const expand = promisify(gunzip);

export function shellRoutes(http: Http, plane: Plane): void {
  const listed = routes.listShellSessions;
  serve(http, plane, listed, async (_, { caller: { org_id }, params: { id }, query, db }) => {
    await requireRobot(db, org_id, id);
    return await readPage(query, [listed.name, org_id, id], (window) => listSessions(db, org_id, id, window), toWire);
  });
  const all = routes.listAllShellSessions;
  serve(http, plane, all, async (_, { caller, query, db }) => {
    if (query.robot_id !== undefined) await requireRobot(db, caller.org_id, query.robot_id);
    const wire = (row: NamedSessionRow) => ({ ...toWire(row), robot_name: row.robot_name });
    return await readPage(query, [all.name, caller.org_id], (window) => listAllSessions(db, caller, query, window), wire);
  });
  serve(http, plane, routes.getShellSession, async (_, { caller, params, db }) => ({
    data: toWire(await requireSession(db, caller.org_id, params.id)),
  }));
  serve(http, plane, routes.getShellRecording, async (_, { caller, params, db, audit }) => {
    const session = await requireSession(db, caller.org_id, params.id);
    if (session.recording_dropped_at !== null) throw notFound("recording of shell session", params.id);
    // Reading a recording is audited too.
    audit.changed = true;
    audit.data = { robot_id: session.robot_id };
    return new Answer<never>(200, Readable.from(pieces(db, caller.org_id, params.id)), {
      "content-type": "application/x-asciicast",
      "content-disposition": `attachment; filename="${session.id}.cast"`,
    });
  });
}

const requireSession = async (db: Db, org_id: string, id: string): Promise<SessionRow> =>
  found(await findSession(db, org_id, id), "shell session", id);

/** Yields the decompressed chunks of a recording. Reads them only as fast as the client does. */
async function* pieces(db: Db, org_id: string, id: string): AsyncGenerator<Buffer> {
  const read = (last?: { seq: number }) => chunksAfter(db, org_id, id, last?.seq ?? 0, CHUNKS_AT_A_TIME);
  for await (const chunks of pages(CHUNKS_AT_A_TIME, read)) for (const { bytes } of chunks) yield await expand(bytes);
}

const toWire = (row: SessionRow): ShellSession => ({
  id: row.id,
  robot_id: row.robot_id,
  actor: row.actor,
  ip: row.ip,
  app: row.app,
  // Return only the program without its arguments, which may be secrets. The recording contains them, but fewer users may read it.
  program: row.command?.[0] ?? null,
  terminal: row.terminal,
  status: row.status,
  exit_code: row.exit_code,
  reason: row.reason,
  started_at: wireTime(row.started_at),
  ended_at: row.ended_at === null ? null : wireTime(row.ended_at),
  output_bytes: row.output_bytes,
  recording: { status: row.recording_dropped_at === null ? "kept" : "dropped", bytes: row.recording_bytes },
});

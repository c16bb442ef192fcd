import type { Plane } from "../../context.ts";
import { background, type Background } from "../../kernel/background.ts";
import { type Failures, isolateEach } from "../../kernel/isolate-failures.ts";
import { pages } from "../../kernel/page.ts";
import { deleteInBatches, forEachOrg, listOrgIds } from "../../kernel/retention.ts";
import { deleteSessions, dropRecording, type KeptRecording, listKeptBefore, listOldestKept, listOrgsAbove } from "./store.ts";

const EVERY_MS = 3_600_000;
const DAY_MS = 86_400_000;
const BATCH_ROWS_MAX = 200;

/**
 * Starts the job that deletes recordings and sessions of shells: first old recordings, then the oldest recordings of orgs above their
 * limit, then old sessions.
 */
export const startShellRetention = (plane: Plane): Background =>
  background(plane, "shells", EVERY_MS, async () => {
    const failures = await isolateEach([dropRecordings, dropSessions], plane.db_errors.isOutage, (part) => part(plane));
    if (failures !== undefined) throw failures.error;
  });

const daysAgo = ({ retention_clock }: Plane, days: number): Date => new Date(retention_clock.now().getTime() - days * DAY_MS);

/** Deletes old recordings, and the oldest ones of orgs above their limit. Keeps their sessions. Several nodes may run this concurrently. */
export async function dropRecordings(plane: Plane): Promise<void> {
  const { db, db_errors, settings } = plane;
  const { shell_recording_days, shell_recording_bytes_max, shell_session_retention_days } = settings.limits;
  // Delete a recording at the latest when its session is old enough to be deleted, because a session is deleted only after its recording.
  const before = daysAgo(plane, Math.min(shell_recording_days, shell_session_retention_days || Infinity));
  let failures: Failures<unknown> | undefined;
  const read = (last: Pick<KeptRecording, "org_id" | "id"> = { org_id: "", id: "" }) => listKeptBefore(db, before, last, BATCH_ROWS_MAX);
  for await (const old of pages(BATCH_ROWS_MAX, read))
    failures = (await isolateEach(old, db_errors.isOutage, (recording) => drop(plane, recording))) ?? failures;
  const full = await listOrgsAbove(db, shell_recording_bytes_max);
  failures =
    (await isolateEach(full, db_errors.isOutage, ({ org_id, bytes }) => dropOldest(plane, org_id, bytes - shell_recording_bytes_max))) ??
    failures;
  if (failures !== undefined) throw failures.error;
}

async function dropOldest(plane: Plane, org_id: string, bytes: number): Promise<void> {
  for (let left = bytes; left > 0;) {
    const oldest = await listOldestKept(plane.db.forOrg(org_id), org_id, BATCH_ROWS_MAX);
    if (oldest.length === 0) return;
    for (const recording of oldest) {
      if (left <= 0) return;
      await drop(plane, recording);
      left -= recording.recording_bytes;
    }
  }
}

async function drop({ db, clock, log }: Plane, { org_id, id, recording_bytes }: KeptRecording): Promise<void> {
  await db.forOrg(org_id).transaction((tx) => dropRecording(tx, org_id, id, clock.now()));
  log.info({ org_id, session_id: id, bytes: recording_bytes }, "deleted the recording of a shell");
}

/** Deletes old sessions whose recordings were deleted. */
export async function dropSessions(plane: Plane): Promise<void> {
  const { db, log, settings } = plane;
  const { shell_session_retention_days: days } = settings.limits;
  if (days === 0) return;
  const before = daysAgo(plane, days);
  await forEachOrg({ log }, "shells", await listOrgIds(db), async (org_id) => {
    const sessions = await deleteInBatches((limit) => deleteSessions(db, org_id, before, limit));
    if (sessions > 0) log.info({ org_id, sessions, before: before.toISOString() }, "deleted old shell sessions");
  });
}

import type { Plane } from "../../context.ts";
import { background, type Background } from "../../kernel/background.ts";
import { dropRecording, type KeptRecording, listKeptBefore, listOldestKept, listOrgsAbove } from "./store.ts";

const EVERY_MS = 3_600_000;
const DAY_MS = 86_400_000;
const BATCH_ROWS_MAX = 200;

/** Drops recordings that are too old, and the oldest of an org that has too many: that there were such sessions stays known. */
export const startRecordingRetention = (plane: Plane): Background => background(plane, "recordings", EVERY_MS, () => dropRecordings(plane));

/** Once; two nodes may do it at the same time. */
export async function dropRecordings(plane: Plane): Promise<void> {
  const { db, retention_clock, settings } = plane;
  const { shell_recording_days, shell_recording_bytes_max } = settings.limits;
  const before = new Date(retention_clock.now().getTime() - shell_recording_days * DAY_MS);
  for (let found = BATCH_ROWS_MAX; found === BATCH_ROWS_MAX;) {
    const old = await listKeptBefore(db, before, BATCH_ROWS_MAX);
    for (const recording of old) await drop(plane, recording);
    found = old.length;
  }
  for (const { org_id, bytes } of await listOrgsAbove(db, shell_recording_bytes_max))
    await dropOldest(plane, org_id, bytes - shell_recording_bytes_max);
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
  log.info({ org_id, session_id: id, bytes: recording_bytes }, "a recording of a shell was dropped");
}

import { statfs } from "node:fs/promises";
import type { Plane } from "../../context.ts";

const READY_TIMEOUT_MS = 2_000;
const BUS_AWAY = "not connected";
const DISK_FULL = "full";
/** A segment of PostgreSQL's log: with less it stops at the next one. */
const DISK_FULL_BYTES = 16 * 1024 ** 2;

/** Whether each part that requests need answers, by name: `ok` or what is wrong. */
export async function checkReady({
  db,
  blobs,
  bus,
  clock,
  settings,
}: Pick<Plane, "db" | "blobs" | "bus" | "clock" | "settings">): Promise<Record<string, string>> {
  const within = async (work: Promise<unknown>): Promise<string> => {
    const abort = new AbortController();
    const late = clock.sleep(READY_TIMEOUT_MS, abort.signal).then(() => "does not answer");
    const answer = await Promise.race([
      work.then(
        () => "ok",
        () => "fails",
      ),
      late,
    ]);
    abort.abort();
    return answer;
  };
  const [database, artifacts, is_full] = await Promise.all([
    db.ready(READY_TIMEOUT_MS).then((ready) => (ready ? "ok" : "does not answer")),
    within(blobs.freeBytes()),
    isDataDiskFull(settings),
  ]);
  return { database, bus: bus.connected ? "ok" : BUS_AWAY, artifacts, disk: is_full ? DISK_FULL : "ok" };
}

/** Whether the disk of the data directory has no room for the next writes. */
export async function isDataDiskFull({ data_directory }: Plane["settings"]): Promise<boolean> {
  const disk = await statfs(data_directory).catch(() => undefined);
  return disk !== undefined && disk.bavail * disk.bsize < DISK_FULL_BYTES;
}

/**
 * What is a reason to send requests elsewhere, by name. Not the bus: without it everything works, and what other nodes tell arrives late.
 * Nor a full disk: reads work, and what makes room again comes through the API. Nor a store of artifacts that all nodes share: to take every one of them out makes an outage of what only uploads and downloads need.
 */
export const reasonsNotReady = (checks: Record<string, string>, { settings }: Pick<Plane, "settings">): [name: string, state: string][] =>
  Object.entries(checks).filter(
    ([name, state]) =>
      state !== "ok" && state !== BUS_AWAY && state !== DISK_FULL && !(name === "artifacts" && settings.blobs !== undefined),
  );

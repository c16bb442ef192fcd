import { statfs } from "node:fs/promises";
import type { Plane } from "../../context.ts";

const READY_TIMEOUT_MS = 2_000;
const BUS_DISCONNECTED = "not connected";
const DISK_FULL = "full";
/** Size of a WAL segment: with less free space, PostgreSQL stops at the next one. */
const DISK_FULL_BYTES = 16 * 1024 ** 2;

/** Checks each dependency of requests. Returns `ok` or the problem, by name. */
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
  return { database, bus: bus.connected ? "ok" : BUS_DISCONNECTED, artifacts, disk: is_full ? DISK_FULL : "ok" };
}

/** Whether the disk of the data directory has no room for the next writes. */
export async function isDataDiskFull({ data_directory }: Plane["settings"]): Promise<boolean> {
  const disk = await statfs(data_directory).catch(() => undefined);
  return disk !== undefined && disk.bavail * disk.bsize < DISK_FULL_BYTES;
}

/**
 * Returns the failed checks because of which a load balancer should send requests elsewhere, by name. Three problems are no reason:
 * - The bus: all requests work without it, only hints of other nodes arrive late.
 * - A full disk: reads work, and requests are needed to free space.
 * - A shared artifact store: only uploads and downloads need it, and all nodes would be taken out at once.
 */
export const reasonsNotReady = (checks: Record<string, string>, { settings }: Pick<Plane, "settings">): [name: string, state: string][] =>
  Object.entries(checks).filter(
    ([name, state]) =>
      state !== "ok" && state !== BUS_DISCONNECTED && state !== DISK_FULL && !(name === "artifacts" && settings.blobs !== undefined),
  );

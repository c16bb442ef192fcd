import type { Plane } from "../../context.ts";

const READY_TIMEOUT_MS = 2_000;
const BUS_AWAY = "not connected";

/** Whether each part that requests need answers, by name: `ok` or what is wrong. */
export async function checkReady({
  db,
  blobs,
  bus,
  clock,
}: Pick<Plane, "db" | "blobs" | "bus" | "clock">): Promise<Record<string, string>> {
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
  const [database, artifacts] = await Promise.all([
    db.ready(READY_TIMEOUT_MS).then((ready) => (ready ? "ok" : "does not answer")),
    within(blobs.freeBytes()),
  ]);
  return { database, bus: bus.connected ? "ok" : BUS_AWAY, artifacts };
}

/**
 * What is a reason to send requests elsewhere, by name. Not the bus: without it everything works, and what other nodes tell arrives late.
 * Nor a store of artifacts that all nodes share: to take every one of them out makes an outage of what only uploads and downloads need.
 */
export const reasonsNotReady = (checks: Record<string, string>, { settings }: Pick<Plane, "settings">): [name: string, state: string][] =>
  Object.entries(checks).filter(
    ([name, state]) => state !== "ok" && state !== BUS_AWAY && !(name === "artifacts" && settings.blobs !== undefined),
  );

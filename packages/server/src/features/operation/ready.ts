import type { Plane } from "../../context.ts";

const READY_TIMEOUT_MS = 2_000;

/** Whether each part that requests need answers, by name: `ok` or what is wrong. */
export async function checkReady({ db, blobs, clock }: Pick<Plane, "db" | "blobs" | "clock">): Promise<Record<string, string>> {
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
  // The bus of a single node lives in this process: it answers if we do.
  return { database, bus: "ok", artifacts };
}

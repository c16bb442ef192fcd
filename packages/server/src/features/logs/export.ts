import type { Db } from "../../kernel/db.ts";
import { wireTime } from "../../kernel/time.ts";
import { readRecords, unpack } from "./codec.ts";
import { type LogFilter, LogMatch } from "./match.ts";
import { othersTurn } from "./read.ts";
import { type BatchKey, type BatchRow, batchesAfter } from "./store.ts";
import { lineHead } from "./wire.ts";

/** Batches in one read. Each has at most 256 KiB of JSON, so a read is some 8 MB. */
const BATCHES_A_READ = 32;

/**
 * Yields the matching records as lines of JSON: robot by robot, oldest first. Reads one page of batches at a time, only as fast as
 * the client reads. Records stored during the export are included.
 */
export async function* exportLines(db: Db, org_id: string, robot_ids: readonly string[], filter: LogFilter): AsyncGenerator<string> {
  const match = new LogMatch(filter);
  for (const robot_id of robot_ids) {
    let after: BatchKey | undefined;
    for (;;) {
      const batches: BatchRow[] = await batchesAfter(db, org_id, robot_id, filter, after, BATCHES_A_READ);
      for (const batch of batches) {
        const lines = linesOf(batch, match);
        if (lines === "") await othersTurn();
        else yield lines;
      }
      const last = batches.at(-1);
      if (last === undefined || batches.length < BATCHES_A_READ) break;
      after = last;
    }
  }
}

function linesOf(batch: BatchRow, match: LogMatch): string {
  const { robot_id, received_at } = batch;
  const json = unpack(batch);
  if (!match.mayHold(json)) return "";
  const head = lineHead(robot_id, wireTime(received_at));
  let lines = "";
  for (const record of readRecords(json)) if (match.holds(record)) lines += `${head}${oneLine(JSON.stringify(record).slice(1))}\n`;
  return lines;
}

/** Escapes the control characters and line separators that JSON leaves as they are but some readers treat as line ends. */
const oneLine = (json: string): string =>
  /[\u007f-\u009f\u2028\u2029]/.test(json)
    ? json.replace(/[\u007f-\u009f\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`)
    : json;

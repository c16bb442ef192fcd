import { badRequest } from "../../kernel/fault.ts";
import type { LogKey } from "./read.ts";

/** Formats the key of a page of log records for its cursor. */
export const formatKey = ({ received_at, robot_id, first_seq, seq }: LogKey): string =>
  JSON.stringify([received_at.getTime(), robot_id, first_seq, seq]);

/** Parses a key. Throws 400 if it is invalid. */
export function parseKey(text: string): LogKey {
  try {
    const [ms, robot_id, first_seq, seq] = JSON.parse(text) as unknown[];
    const received_at = new Date(Number(ms));
    if (typeof robot_id === "string" && isCount(first_seq) && isCount(seq) && /^\d{4}-/.test(received_at.toISOString())) {
      return { received_at, robot_id, first_seq, seq };
    }
  } catch {
    // An invalid cursor is reported below.
  }
  throw badRequest("cursor is invalid: use next_cursor of the previous page");
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Records per batch: the goal for a stored record applies to batches of 20 and more. */
export const RECORDS_PER_BATCH = 50;

/** A batch as a robot logs it, from this sequence number on. */
export const recordsFrom = (seq: number, count = RECORDS_PER_BATCH) =>
  Array.from({ length: count }, (_, i) => ({
    seq: seq + i,
    at: "2030-01-01T00:00:00.000Z",
    level: "info" as const,
    source: "navigation",
    message: `goal ${seq + i} reached after 12.4 s, 3 replans, battery at 71 %`,
    fields: { x: 1.25, y: -3.5, attempt: 1 },
  }));

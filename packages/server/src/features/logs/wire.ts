import type { LogRecordBody } from "@roamfleet/protocol/link";
import type { LogRecord } from "@roamfleet/protocol/routes";

export const toWire = (record: LogRecordBody, robot_id: string, received_at: string): LogRecord => ({ robot_id, received_at, ...record });

/** Returns the beginning of each record's JSON. */
export const lineHead = (robot_id: string, received_at: string): string => `${JSON.stringify({ robot_id, received_at }).slice(0, -1)},`;

/** Returns each record as JSON. The common fields are serialized once. */
export function toLines(records: readonly LogRecordBody[], robot_id: string, received_at: string): string[] {
  const head = lineHead(robot_id, received_at);
  return records.map((record) => head + JSON.stringify(record).slice(1));
}

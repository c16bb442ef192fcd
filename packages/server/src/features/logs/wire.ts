import type { LogRecordBody } from "@roamfleet/protocol/link";
import type { LogRecord } from "@roamfleet/protocol/routes";

export const toWire = (record: LogRecordBody, robot_id: string, received_at: string): LogRecord => ({ robot_id, received_at, ...record });

/** How each of them begins as JSON. */
export const lineHead = (robot_id: string, received_at: string): string => `${JSON.stringify({ robot_id, received_at }).slice(0, -1)},`;

/** The same records as JSON, one text each; what they have in common is written once. */
export function toLines(records: readonly LogRecordBody[], robot_id: string, received_at: string): string[] {
  const head = lineHead(robot_id, received_at);
  return records.map((record) => head + JSON.stringify(record).slice(1));
}

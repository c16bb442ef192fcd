import type { Duplex } from "node:stream";
import { STATUS_CODES } from "node:http";
import type { ErrorCode } from "@roamfleet/protocol";
import { LINK_SLOT_HEADER, RETRY_AFTER_MS_HEADER } from "@roamfleet/protocol/link";
import type { AdmissionSlot } from "./admission-queue.ts";

/** Answers an upgrade request with an HTTP error, in the JSON format of the API's errors, and closes the socket. */
export function refuseUpgrade(
  socket: Duplex,
  status: number,
  code: ErrorCode,
  message: string,
  headers: Record<string, string> = {},
): void {
  const body = JSON.stringify({ error: { code, message } });
  const lines = Object.entries({
    "content-type": "application/json; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
    ...headers,
  });
  socket.on("error", () => socket.destroy());
  // Closes the socket even if the client does not close its end of the connection.
  socket.once("finish", () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`,
  );
}

/** Refuses a robot for now. The response contains the time until it may retry and, if one is booked, its slot. */
export function refuseForNow(socket: Duplex, { retry_after_ms, slot }: AdmissionSlot): void {
  refuseUpgrade(socket, 503, "http_error", "too many robots are connecting; retry at the given time", {
    "retry-after": String(Math.ceil(retry_after_ms / 1_000)),
    [RETRY_AFTER_MS_HEADER]: String(Math.ceil(retry_after_ms)),
    ...(slot === undefined ? {} : { [LINK_SLOT_HEADER]: slot }),
  });
}

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { LOCK_OWNER_CHARACTERS_MAX, LOCK_TTL_SECONDS_MAX, LOCK_UNREADABLE_SECONDS } from "../safety/update-lock.ts";
import { EVENT_BACKLOG_BYTES_MAX, EVENT_READERS_MAX, EVENTS_KEPT_MAX } from "./events.ts";
import { EVENTS_PATH, LOCAL_ROUTES, SAMPLES_ROUTE } from "./routes.ts";
import { HEADER_BYTES_MAX, LOCAL_BODY_BYTES_MAX, LOCAL_CLIENTS_MAX, REQUEST_TIMEOUT_MS, SAMPLES_BODY_BYTES_MAX } from "./server.ts";
import { SOCKET_PATH_BYTES_MAX } from "./socket-path.ts";

const page = readFileSync(join(import.meta.dirname, "../../../../docs/reference/robot-api.md"), "utf8");
const sources = [import.meta.dirname, join(import.meta.dirname, "../safety")]
  .flatMap((directory) => readdirSync(directory).map((file) => join(directory, file)))
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
  .map((file) => readFileSync(file, "utf8"))
  .join("\n");

const all = (text: string, pattern: RegExp): string[] =>
  [...new Set(Array.from(text.matchAll(pattern), (match) => match[1] ?? ""))].toSorted();

test("robot-api.md lists exactly the routes, error codes and events of the local API", () => {
  const routes = all(page, /^\| `((?:GET|PUT|POST|DELETE) [^`]+)`/gm);
  assert.deepEqual(routes, [...Object.keys(LOCAL_ROUTES), `GET ${EVENTS_PATH}`, SAMPLES_ROUTE].toSorted());
  const codes = all(sources, /(?:LocalError\(\d+, |code: )"([a-z_]+)"/g);
  assert.ok(codes.length > 5);
  assert.deepEqual(all(page, /^\| \d{3} \| `([a-z_]+)` \|/gm), codes);
  const events = all(sources, /"((?:app|config|lock|connection|events)\.[a-z]+)"/g);
  assert.ok(events.length > 5);
  const listed = page.slice(page.indexOf("| event | data |"), page.indexOf("## Bounds"));
  assert.deepEqual(all(listed, /`([a-z]+\.[a-z]+)`/g), events);
});

test("robot-api.md states the limits that the local API enforces", () => {
  for (const text of [
    `| clients at the same time | ${LOCAL_CLIENTS_MAX};`,
    `| readers of events | ${EVENT_READERS_MAX};`,
    `| a body | ${LOCAL_BODY_BYTES_MAX} bytes; of \`POST /v1/samples\` ${SAMPLES_BODY_BYTES_MAX} bytes |`,
    `| headers | ${HEADER_BYTES_MAX} bytes |`,
    `| a request until it is whole | ${REQUEST_TIMEOUT_MS / 1_000} s |`,
    `cut when ${EVENT_BACKLOG_BYTES_MAX} bytes wait`,
    `| events kept | ${EVENTS_KEPT_MAX} |`,
    `| the socket's path | ${SOCKET_PATH_BYTES_MAX} bytes |`,
    `\`owner\` (1 to ${LOCK_OWNER_CHARACTERS_MAX} printable characters), \`ttl_seconds\` (1 to ${LOCK_TTL_SECONDS_MAX})`,
    `holds for ${LOCK_UNREADABLE_SECONDS} seconds`,
  ])
    assert.ok(page.includes(text), text);
});

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Http } from "../../kernel/http.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { operationRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };

test("answers a pending request before it closes the connection at a shutdown", TIMEOUT, async () => {
  let http: Http | undefined;
  await using it = await startFeaturePlane([operationRoutes, (given) => (http = given)]);
  const { hostname, port } = new URL(it.url);
  const socket = connect(Number(port), hostname);
  let answers = "";
  socket.setEncoding("utf8").on("data", (text: string) => (answers += text));
  // Half of the second request arrives with the first, so the connection is still in use after the first answer.
  socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\n");
  await until("the first answer", () => answers.endsWith('{"status":"ok"}'));
  answers = "";
  const { server } = http?.app ?? assert.fail("no server");
  const closed = http?.app.close();
  await until("the server to stop listening", () => !server.listening);
  socket.write("\r\n");
  await once(socket, "close");
  assert.match(answers, /^HTTP\/1\.1 200 OK\r\n[\s\S]*connection: close\r\n[\s\S]*\{"status":"ok"\}$/i);
  await closed;
});

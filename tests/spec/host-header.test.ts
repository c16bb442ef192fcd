import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { startPlane } from "../harness/index.ts";

const TIMEOUT = { timeout: 120_000 };

/** Sends raw bytes. Returns the server's response once the server closes the connection. */
function answerTo(url: string, request: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    let text = "";
    socket.setEncoding("utf8").on("data", (part: string) => (text += part));
    socket.on("close", () => resolve(text)).on("error", reject);
    socket.write(request);
  });
}

test("a request with two Host headers returns 400, even if they are equal", TIMEOUT, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const upgrade =
    "Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
  for (const [path, more] of [
    ["/healthz", "Connection: close\r\n"],
    ["/agent/ws", upgrade],
  ] as const)
    for (const hosts of ["Host: a\r\nHost: b\r\n", "Host: a\r\nhOST: a\r\n"]) {
      const answer = await answerTo(plane.url, `GET ${path} HTTP/1.1\r\n${hosts}${more}\r\n`);
      assert.match(answer, /^HTTP\/1\.1 400 /, path);
      assert.match(answer, /the request has two Host headers/, path);
    }
  assert.match(await answerTo(plane.url, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), /^HTTP\/1\.1 200 /);
});

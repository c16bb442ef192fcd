import assert from "node:assert/strict";
import { test } from "node:test";
import { maskingFor } from "./masking.ts";

test("uses a zero WebSocket mask over TLS and loopback, otherwise the default mask", () => {
  for (const url of [
    "https://fleet.example",
    "wss://fleet.example/agent/ws",
    "http://127.0.0.1:7600",
    "ws://[::1]:1",
    "http://localhost",
  ]) {
    const mask = new Uint8Array([1, 2, 3, 4]);
    maskingFor(url).generateMask?.(mask);
    assert.deepEqual([...mask], [0, 0, 0, 0], url);
  }
  for (const url of ["http://fleet.example", "ws://10.0.0.1", "http://127.0.0.1.example"]) assert.deepEqual(maskingFor(url), {}, url);
});

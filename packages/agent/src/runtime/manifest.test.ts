import assert from "node:assert/strict";
import { test } from "node:test";
import { StepFailure } from "./failure.ts";
import { decodeFileName, encodeFileName } from "@roamfleet/protocol";
import { parseBundleManifest, parseFileManifest } from "./manifest.ts";

test("parses a complete bundle manifest and applies defaults to a minimal one", () => {
  assert.deepEqual(parseBundleManifest({ start: ["node", "main.js"] }), {
    start: ["node", "main.js"],
    env: {},
    health: null,
    stop_timeout_seconds: 10,
    limits: { memory_bytes: null, cpus: null, pids: null },
    metrics: null,
    reload: null,
  });
  const full = {
    start: ["./run", ""],
    env: { A: "1" },
    health: { http: { url: "http://127.0.0.1:1/health" } },
    stop_timeout_seconds: 0.5,
    limits: { memory_bytes: 64 * 1024 * 1024, cpus: 0.5, pids: 20 },
    metrics: { port: 9_100, path: "/m?x=1" },
    reload: { signal: "SIGHUP" },
  };
  assert.deepEqual(parseBundleManifest(full), { ...full, health: { http: { url: "http://127.0.0.1:1/health", expect_status: 200 } } });
  assert.deepEqual(parseBundleManifest({ start: ["x"], metrics: { port: 1 } }).metrics, { port: 1, path: "/metrics" });
});

const start = ["x"];
const wrong: [string, unknown][] = [
  ["roamfleet.json must be an object", []],
  ["start is missing", {}],
  ["start must be a list", { start: "node main.js" }],
  ["start must be a list", { start: [] }],
  ["start[0] must be a non-empty string", { start: [""] }],
  ["start[1] must be a string", { start: ["a", 1] }],
  ["start[1] must be a string", { start: ["a", "b\0c"] }],
  ['"helth" is unknown', { start, helth: {} }],
  ["env must be an object", { start, env: [] }],
  ["env.A must be a string", { start, env: { A: 1 } }],
  ["env.A-B is not a name", { start, env: { "A-B": "1" } }],
  ["env.ROAMFLEET_APP is reserved for the agent", { start, env: { ROAMFLEET_APP: "x" } }],
  ["health must have exactly one", { start, health: {} }],
  ["health must have exactly one", { start, health: { command: ["a"], file: {} } }],
  ["health.http.url must be", { start, health: { http: { url: "ftp://x" } } }],
  ["health.http.expect_status must be", { start, health: { http: { url: "http://x", expect_status: "200" } } }],
  ["health.http.path is unknown", { start, health: { http: { url: "http://x", path: "/" } } }],
  ["health.command must be", { start, health: { command: "true" } }],
  ["health.file.max_age_seconds must be", { start, health: { file: { path: "a" } } }],
  ["limits.memory is unknown", { start, limits: { memory: 1 } }],
  ["limits.memory_bytes must be a number from", { start, limits: { memory_bytes: 1_000 } }],
  ["limits.pids must be a whole number", { start, limits: { pids: 1.5 } }],
  ["metrics must be an object", { start, metrics: 9_100 }],
  ["metrics.port must be a number from 1 to 65535", { start, metrics: {} }],
  ["metrics.port must be a number from 1 to 65535", { start, metrics: { port: 70_000 } }],
  ["metrics.host is unknown", { start, metrics: { port: 1, host: "10.0.0.1" } }],
  ["metrics.path must begin with /", { start, metrics: { port: 1, path: "/a b" } }],
  ["metrics.path must begin with /", { start, metrics: { port: 1, path: "@evil/" } }],
  ["stop_timeout_seconds must be", { start, stop_timeout_seconds: 1e9 }],
  ["reload.signal must be one of", { start, reload: { signal: "SIGKILL" } }],
];

for (const [message, manifest] of wrong) {
  test(`rejects the bundle manifest ${JSON.stringify(manifest)} with the error "${message}"`, () => {
    assert.throws(
      () => parseBundleManifest(manifest),
      (error: unknown) => {
        assert.ok(error instanceof StepFailure);
        assert.ok(error.message.startsWith(`manifest: ${message}`), error.message);
        return true;
      },
    );
  });
}

test("a file manifest is optional but must have an absolute path and a valid mode", () => {
  assert.deepEqual(parseFileManifest(null), { path: null, mode: 0o644, reload: null });
  assert.deepEqual(parseFileManifest({ path: "/etc/robot/../robot/map.yaml", mode: "0600", reload: { signal: "SIGHUP" } }), {
    path: "/etc/robot/map.yaml",
    mode: 0o600,
    reload: { signal: "SIGHUP", app: "main" },
  });
  assert.throws(() => parseFileManifest({ path: "map.yaml" }), /path must be absolute/);
  assert.throws(() => parseFileManifest({ mode: "4755" }), /mode must be permissions/);
});

test("encodes any string as a file name without separators and decodes it back", () => {
  for (const text of ["default", "a/b", "..", ".", ".hidden", "a.b", "ü", "a b", "%", "100%25", "nul\0", "A_b-c~1", "\u{1F916}"]) {
    const name = encodeFileName(text);
    assert.match(name, /^[A-Za-z0-9_~%-][A-Za-z0-9_~%.-]*$/);
    assert.equal(decodeFileName(name), text);
  }
  assert.equal(encodeFileName("../x"), "%2E.%2Fx");
  assert.equal(decodeFileName("a%2fb"), undefined);
});

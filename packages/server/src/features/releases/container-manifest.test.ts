import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "../../kernel/fault.ts";
import { checkContainerManifest } from "./container-manifest.ts";

const full = {
  entrypoint: ["/bin/sh", "-c"],
  command: ["exec nav", ""],
  env: { ROS_DOMAIN_ID: "7", _X: "" },
  ports: [
    { container: 80, host: 8080 },
    { container: 80, host: 8080, protocol: "udp" },
    { container: 81, host_address: "127.0.0.1" },
  ],
  mounts: [
    { type: "bind", source: "/var/lib/maps", target: "/maps", read_only: true },
    { type: "volume", source: "state", target: "/state" },
    { type: "volume", target: "/cache" },
    { type: "tmpfs", target: "/tmp", size_bytes: 1_000_000 },
  ],
  devices: [{ host: "/dev/ttyUSB0", container: "/dev/lidar", permissions: "rw" }, { host: "/dev/video0" }],
  restart: { policy: "on_failure", max_retries: 5 },
  limits: { memory_bytes: 256 * 1024 * 1024, cpus: 1.5, pids: 100 },
  ulimits: { nofile: { soft: 1024, hard: 4096 }, rtprio: { soft: 99, hard: 99 }, memlock: { soft: -1, hard: -1 } },
  health: { http: { port: 80, path: "/healthz", expect_status: 204 } },
  metrics: { port: 9_464, path: "/metrics?x=1" },
  replace: "after",
  stop_timeout_seconds: 30,
  reload: { signal: "SIGHUP" },
};

test("accepts a container manifest with all fields, no fields or null fields", () => {
  for (const manifest of [
    full,
    {},
    { host_network: true, replace: "beside" },
    { health: { http: { url: "http://127.0.0.1:8080/" } } },
    { health: { command: ["true"] }, reload: { command: ["kill", "-HUP", "1"] } },
    { health: { log: { pattern: "^ready in \\d+ ms$" } }, command: null, limits: { cpus: null } },
  ])
    checkContainerManifest(manifest);
});

const bind = { type: "bind", source: "/a", target: "/b" };
const wrong: readonly [string, object][] = [
  ["unknown field manifest.port; the nearest known one is ports", { port: 80 }],
  ["unknown field manifest.health.htpp; the nearest known one is http", { health: { htpp: {} } }],
  ["unknown field manifest.ports.0.hots; the nearest known one is host", { ports: [{ container: 1, hots: 1 }] }],
  ["field manifest.ports.0.container is required", { ports: [{}] }],
  ["field manifest.ports.1.host must be <= 65535", { ports: [{ container: 1 }, { container: 1, host: 70_000 }] }],
  ["field manifest.ports.0.host_address must be an IPv4 address", { ports: [{ container: 1, host_address: "robot" }] }],
  ["field manifest.ports.0.protocol must be one of tcp, udp", { ports: [{ container: 1, protocol: "sctp" }] }],
  [
    "field manifest.ports.1 has the same port of the robot as ports.0",
    {
      ports: [
        { container: 1, host: 5 },
        { container: 2, host: 5 },
      ],
    },
  ],
  ["field manifest.ports cannot be used with host_network", { host_network: true, ports: [{ container: 1 }] }],
  ['field manifest.replace must not be "beside"', { replace: "beside", ports: [{ container: 1, host: 5 }] }],
  ["field manifest.replace must be one of after, beside", { replace: "before" }],
  ["field manifest.command must be array", { command: "nav --fast" }],
  ["field manifest.entrypoint must NOT have fewer than 1 items", { entrypoint: [] }],
  ["field manifest.command.0 must be a string", { command: ["a\0b"] }],
  ["unknown field manifest.env.A-B", { env: { "A-B": "1" } }],
  ["unknown field manifest.env.ROAMFLEET_APP", { env: { ROAMFLEET_APP: "x" } }],
  ["field manifest.env.A must be string", { env: { A: 1 } }],
  ["field manifest.mounts.0.source must be an absolute path without ..", { mounts: [{ ...bind, source: "/a/../etc" }] }],
  ["field manifest.mounts.0.target must be an absolute path without ..", { mounts: [{ ...bind, target: "b" }] }],
  ["field manifest.mounts.0.source must be an absolute path for a bind mount", { mounts: [{ ...bind, source: "a" }] }],
  ["field manifest.mounts.0.source must be the name of a volume", { mounts: [{ ...bind, type: "volume" }] }],
  ["field manifest.mounts.0.source cannot be used with a tmpfs", { mounts: [{ ...bind, type: "tmpfs" }] }],
  ["field manifest.mounts.0.size_bytes can only be used with a tmpfs", { mounts: [{ ...bind, size_bytes: 9_999 }] }],
  ["field manifest.mounts.1 has the same target as mounts.0", { mounts: [bind, { ...bind, target: "/b/" }] }],
  ["field manifest.devices.0.host must be a path below /dev", { devices: [{ host: "/etc/passwd" }] }],
  ["field manifest.devices.0.permissions must be some of the letters", { devices: [{ host: "/dev/a", permissions: "rr" }] }],
  ["field manifest.restart.policy must be one of always, on_failure, never", { restart: { policy: "no" } }],
  ["field manifest.restart.max_retries can only be used with the policy on_failure", { restart: { max_retries: 3 } }],
  ["field manifest.limits.memory_bytes must be >= 6291456", { limits: { memory_bytes: 1 } }],
  ["unknown field manifest.ulimits.files", { ulimits: { files: { soft: 1, hard: 1 } } }],
  ["field manifest.ulimits.nofile.soft must not be above hard", { ulimits: { nofile: { soft: 2, hard: 1 } } }],
  ["field manifest.health must NOT have fewer than 1 properties", { health: {} }],
  ["field manifest.health must NOT have more than 1 properties", { health: { command: ["a"], log: { pattern: "a" } } }],
  ["field manifest.health.http must have exactly one of url, port", { health: { http: {} } }],
  ["field manifest.health.http.path can only be used with port", { health: { http: { url: "http://x", path: "/" } } }],
  ["field manifest.health.http.url must be an http or https address", { health: { http: { url: "ftp://x" } } }],
  ["field manifest.health.log.pattern must be a regular expression", { health: { log: { pattern: "(" } } }],
  ["field manifest.metrics.port is required", { metrics: {} }],
  ["field manifest.metrics.path must be a path that begins with /", { metrics: { port: 1, path: "m" } }],
  ["field manifest.stop_timeout_seconds must be <= 600", { stop_timeout_seconds: 601 }],
  ["field manifest.reload.signal must be one of SIGHUP", { reload: { signal: "SIGKILL" } }],
];

for (const [message, manifest] of wrong) {
  test(`refuses a container manifest: ${message} (${JSON.stringify(manifest)})`, () => {
    assert.throws(
      () => checkContainerManifest({ ...manifest }),
      (error: unknown) => {
        assert.ok(error instanceof Fault && error.status === 400);
        assert.ok(error.message.startsWith(message), error.message);
        return true;
      },
    );
  });
}

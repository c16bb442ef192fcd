import assert from "node:assert/strict";
import { test } from "node:test";
import { StepFailure } from "../failure.ts";
import { readContainerManifest } from "./container-manifest.ts";
import { portsClash } from "./create-options.ts";

test("a container release without a manifest uses the image's defaults and is always restarted", () => {
  for (const nothing of [null, undefined, {}]) {
    const spec = readContainerManifest(nothing);
    assert.deepEqual(
      [spec.command, spec.health, spec.replace, spec.restart.policy, spec.stop_timeout_seconds],
      [null, null, "after", "always", 10],
    );
  }
});

test("rejects an invalid container manifest and names the field", () => {
  const wrong: [Record<string, unknown>, string][] = [
    [{ comand: ["x"] }, "comand is unknown"],
    [{ entrypoint: [] }, "entrypoint must be a list"],
    [{ env: { ROAMFLEET_APP: "x" } }, "env.ROAMFLEET_APP is reserved for the agent"],
    [{ ports: [{ container: 0 }] }, "ports[0].container must be a number"],
    [{ ports: [{ container: 80.5 }] }, "ports[0].container must be a whole number"],
    [{ host_network: true, ports: [{ container: 80 }] }, "ports cannot be used with host_network"],
    [{ mounts: [{ type: "bind", source: "/srv/../etc", target: "/x" }] }, "mounts[0].source must be an absolute path"],
    [{ mounts: [{ type: "bind", target: "/x" }] }, "mounts[0].source is missing"],
    [{ mounts: [{ type: "volume", source: "/srv", target: "/x" }] }, "mounts[0].source must be the name of a volume"],
    [{ devices: [{ host: "/etc/passwd" }] }, "devices[0].host must be below /dev"],
    [{ restart: { policy: "always", max_retries: 3 } }, "restart.max_retries can only be used with on_failure"],
    [{ limits: { memory_bytes: 1 } }, "limits.memory_bytes must be a number"],
    [{ ulimits: { files: { soft: 1, hard: 1 } } }, "ulimits.files is unknown"],
    [{ health: { http: { url: "http://x", port: 80 } } }, "health.http must have exactly one of url, port"],
    [{ health: { http: { port: 80 }, command: ["x"] } }, "health must have exactly one"],
    [{ health: { http: { url: "file:///etc" } } }, "health.http.url must be an http or https address"],
    [{ metrics: { port: 0 } }, "metrics.port must be a number"],
    [{ metrics: { port: 80, path: "metrics" } }, "metrics.path must begin with /"],
    [{ replace: "now" }, "replace must be one of after, beside"],
    [{ reload: { signal: "SIGKILL" } }, "reload.signal must be one of"],
  ];
  for (const [manifest, message] of wrong)
    assert.throws(
      () => readContainerManifest(manifest),
      (error) => error instanceof StepFailure && error.reason === "rejected_by_robot" && error.message.includes(message),
      message,
    );
});

test("two containers conflict only if they use the same host port and protocol", () => {
  const spec = readContainerManifest({
    ports: [{ container: 80, host: 8080 }, { container: 53, host: 53, protocol: "udp" }, { container: 1 }],
  });
  assert.equal(portsClash(spec, [{ port: 8080, protocol: "tcp" }]), true);
  assert.equal(
    portsClash(spec, [
      { port: 8080, protocol: "udp" },
      { port: 53, protocol: "tcp" },
    ]),
    false,
  );
});

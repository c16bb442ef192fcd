import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../config.ts";
import { ROBOT_CONFIG_DEFAULT } from "../../config-file/robot-config.ts";
import { type ContainerSpec, readContainerManifest } from "./container-manifest.ts";
import { createOptions } from "./create-options.ts";

const create = (manifest: Record<string, unknown>, allowed: { allow_devices?: boolean; allow_host_network?: boolean } = {}) =>
  createOptions({
    app: "main",
    release: { id: "rel_1", tag: "v1" } as never,
    spec: readContainerManifest(manifest),
    image_id: "sha256:00",
    state_directory: "/state",
    configs_directory: "/state/configs",
    mount_directories: [],
    allow_devices: false,
    allow_host_network: false,
    engine_sockets: [],
    socket: undefined,
    suffix: "ab",
    ...allowed,
  });

test("rejects devices and host networking unless the robot allows them, and names the flag", () => {
  const devices = { devices: [{ host: "/dev/ttyUSB0" }] };
  for (const [manifest, flag] of [
    [devices, /--allow-devices/],
    [{ host_network: true }, /--allow-host-network/],
  ] as const)
    assert.throws(() => create(manifest), { reason: "rejected_by_robot", message: flag });
  assert.throws(() => create(devices, { allow_host_network: true }), { message: /--allow-devices/ });
  assert.throws(() => create({ host_network: true }, { allow_devices: true }), { message: /--allow-host-network/ });
  assert.equal(create(devices, { allow_devices: true }).HostConfig?.Devices?.[0]?.PathOnHost, "/dev/ttyUSB0");
  assert.equal(create({ host_network: true }, { allow_host_network: true }).HostConfig?.NetworkMode, "host");
  assert.doesNotThrow(() => create({}));
});

test("a container manifest cannot set privileges, capabilities, host namespaces or security options", () => {
  for (const field of [
    "privileged",
    "capabilities",
    "cap_add",
    "pid",
    "ipc",
    "uts",
    "userns",
    "security_opt",
    "volumes_from",
    "cgroup_parent",
    "runtime",
  ])
    assert.throws(() => readContainerManifest({ [field]: true }), { reason: "rejected_by_robot", message: /is unknown/ }, field);
  const { HostConfig = {} } = create({});
  for (const field of ["Privileged", "CapAdd", "PidMode", "IpcMode", "UTSMode", "UsernsMode", "SecurityOpt", "VolumesFrom"])
    assert.equal(field in HostConfig, false, field);
});

test("rejects a container device outside of /dev", () => {
  for (const host of ["/etc/shadow", "/dev/../etc/shadow", "/dev", "dev/null"])
    assert.throws(() => readContainerManifest({ devices: [{ host }] }), { reason: "rejected_by_robot" }, host);
  const spec: ContainerSpec = readContainerManifest({ devices: [{ host: "/dev/null" }] });
  assert.equal(spec.devices[0]?.host, "/dev/null");
});

test("container permissions come from flags, environment or config file, in this order of precedence", () => {
  const base = { server: "http://127.0.0.1:1", state: "/var/lib/agent" };
  const robot = { ...ROBOT_CONFIG_DEFAULT, containers: { devices: true, host_network: true } };
  const of = (...[flags, env, file]: Parameters<typeof readConfig>) => {
    const { allow_devices, allow_host_network } = readConfig({ ...base, ...flags }, env, file);
    return [allow_devices, allow_host_network];
  };
  assert.deepEqual(of({}, {}), [false, false]);
  assert.deepEqual(of({ allowDevices: true }, {}), [true, false]);
  assert.deepEqual(of({}, { ROAMFLEET_ALLOW_HOST_NETWORK: "on" }), [false, true]);
  assert.deepEqual(of({}, {}, robot), [true, true]);
  assert.deepEqual(of({}, { ROAMFLEET_ALLOW_DEVICES: "off" }, robot), [false, true]);
  assert.throws(() => of({}, { ROAMFLEET_ALLOW_DEVICES: "maybe" }), /must be on or off/);
});

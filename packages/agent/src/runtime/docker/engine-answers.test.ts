import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { systemClock } from "@roamfleet/clock";
import { StubEngine } from "../../testing/stub-engine.ts";
import { StepFailure } from "../failure.ts";
import { TIMING } from "../limits.ts";
import { Containers, LABELS, lacksImage } from "./containers.ts";
import { createOptions } from "./create-options.ts";
import { readContainerManifest } from "./container-manifest.ts";
import { Images } from "./images.ts";
import { LayerStore } from "../artifact-store.ts";

const LIMIT = { timeout: 120_000 };
const { signal } = new AbortController();
const json = (value: unknown) => JSON.stringify(value);

test("reuses a container whose creation response was lost, but not a different container", LIMIT, async () => {
  const labels = { [LABELS.robot]: "/state", [LABELS.app]: "main", [LABELS.release_id]: "rel_1" };
  let there = { Id: "c1", Config: { Labels: { ...labels, [LABELS.release_id]: "rel_other" } }, State: { Status: "created" } };
  await using stub = await StubEngine.start((request, response) => {
    if (request.method !== "POST") return void response.end(json(there));
    request.resume();
    // The first request is processed, but its response never arrives.
    if (stub.requests.length === 1) return void request.socket.destroy();
    response.writeHead(409).end(json({ message: 'Conflict. The container name "/roamfleet-main-ab" is already in use' }));
  });
  const containers = new Containers(stub.engine, "/state");
  const create = () => containers.create({ name: "roamfleet-main-ab", Labels: labels }, signal);
  await assert.rejects(create(), (error) => error instanceof StepFailure && error.message.includes("already in use"));
  there = { ...there, Config: { Labels: labels } };
  assert.equal(await create(), "c1");
  there = { ...there, State: { Status: "running" } };
  await assert.rejects(create(), StepFailure);
});

test("distinguishes a missing image from a rejected container", LIMIT, async () => {
  let status = 404;
  await using stub = await StubEngine.start((request, response) => {
    request.resume();
    response.writeHead(status).end(json({ message: status === 404 ? "No such image: sha256:00" : "invalid mount" }));
  });
  const containers = new Containers(stub.engine, "/state");
  const lost = () => containers.create({ name: "one" }, signal).catch(lacksImage);
  assert.equal(await lost(), true);
  status = 400;
  assert.equal(await lost(), false);
});

/** Loads an image of these layers, all on the robot's disk, into a stub engine. Returns the failure. */
async function load(
  layers: readonly Buffer[],
  damage: (file: string) => void,
): Promise<{ failure: StepFailure; loads: number; breaks: number }> {
  await using stub = await StubEngine.start((request, response) => {
    if (request.url?.includes("/images/load")) return void request.resume();
    response.writeHead(request.url?.endsWith("/info") ? 200 : 404).end(json({}));
  });
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "rf-layers-"));
  try {
    const [config, ...parts] = [Buffer.from("config"), ...layers].map((content) => {
      const sha256 = createHash("sha256").update(content).digest("hex");
      fs.writeFileSync(path.join(directory, sha256), content);
      return { sha256, size: content.length, diff_id: sha256 };
    });
    assert.ok(config);
    const fetcher = { get: () => Promise.reject(new Error("no download expected")) };
    const options = { engine: stub.engine, clock: systemClock, timing: TIMING };
    const store = new LayerStore({ ...options, directory, fetcher });
    const on_step = (name: string): void => {
      if (name === "container.layers_checked") damage(store.file(parts[0]?.sha256 ?? ""));
    };
    const images = new Images({ ...options, layers: store, state_directory: "/state", on_step });
    const io = { signal, progress: () => {} };
    const failure = await images.loadLayers("main", "rel_1", { config, layers: parts }, io).then(
      () => assert.fail("it was loaded"),
      (error: unknown) => error,
    );
    assert.ok(failure instanceof StepFailure, String(failure));
    assert.ok(!store.has(config), "refused parts are downloaded again next time");
    return { failure, loads: stub.requests.filter((line) => line.includes("/images/load")).length, breaks: stub.engine.breaks };
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
}

test("fails an image load immediately if a layer is missing from the robot's disk", LIMIT, async () => {
  const { failure, loads, breaks } = await load([Buffer.from("layer")], (file) => fs.rmSync(file));
  assert.equal(failure.reason, "rejected_by_robot");
  assert.match(failure.message, /cannot be read: ENOENT/);
  assert.deepEqual([loads, breaks], [1, 0]);
});

test("rejects a layer that is far larger unpacked than packed before loading it", LIMIT, async () => {
  const bomb = gzipSync(Buffer.alloc(100_000_000));
  const { failure, loads } = await load([bomb], () => {});
  assert.equal(failure.reason, "rejected_by_robot");
  assert.match(failure.message, /larger than \d+ bytes when unpacked \(\d+ bytes packed\)/);
  assert.equal(loads, 0);
});

test("volumes of two apps never have the same name", () => {
  const names = [
    ["a", "b-c"],
    ["a-b", "c"],
    ["a", "b.c"],
    ["a.b", "c"],
    ["a.volume", "c"],
    ["a", "volume.c"],
  ].map(([app = "", source]) => {
    const { HostConfig } = createOptions({
      app,
      release: { id: "rel_1", tag: "v1" } as never,
      spec: readContainerManifest({ mounts: [{ type: "volume", source, target: "/data" }] }),
      image_id: "sha256:00",
      state_directory: "/state",
      configs_directory: "/state/configs",
      mount_directories: [],
      allow_devices: false,
      allow_host_network: false,
      engine_sockets: [],
      socket: undefined,
      suffix: "ab",
    });
    return HostConfig?.Mounts?.[0]?.Source;
  });
  assert.equal(new Set(names).size, names.length, names.join(" "));
});

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { json } from "node:stream/consumers";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { pino } from "pino";
import { readConfig } from "../../config.ts";
import { ROBOT_CONFIG_DEFAULT } from "../../config-file/robot-config.ts";
import { StubEngine } from "../../testing/stub-engine.ts";
import { statePaths } from "../paths.ts";
import { Replacement, writeStagedImage } from "./replacement.ts";
import { Containers, LABELS } from "./containers.ts";

const SIGNED = "registry.example/app@sha256:11";
const release = { id: "rel_1", tag: "v1", image: SIGNED, manifest: {} } as unknown as DesiredRelease;

/** Chooses the container on a robot that already has a container of the release, created from `image_id`. */
async function choose(t: TestContext, { image_id, requires_signature }: { image_id: string; requires_signature: boolean }) {
  const state = fs.mkdtempSync(path.join(os.tmpdir(), "rf-replacement-"));
  t.after(() => fs.rmSync(state, { recursive: true }));
  const paths = statePaths(state);
  writeStagedImage(paths.version("main", release.id), "sha256:aa", undefined);
  let created: { Image?: string } = {};
  await using stub = await StubEngine.start((request, response) => {
    const answer = (value: unknown): void => void response.end(JSON.stringify(value));
    if (request.url?.includes("/containers/create"))
      return void json(request).then((body) => {
        created = body as typeof created;
        answer({ Id: "new" });
      });
    request.resume();
    if (request.method === "DELETE") return void response.writeHead(204).end();
    if (request.url?.includes("/containers/json"))
      return answer([{ Id: "there", Created: 1, State: "running", Labels: { [LABELS.release_id]: release.id } }]);
    answer({ Id: "there", Image: image_id });
  });
  const replacement = new Replacement({
    containers: new Containers(stub.engine, state),
    paths,
    config: readConfig({ server: "http://127.0.0.1:1", state }, {}, ROBOT_CONFIG_DEFAULT),
    clock: systemClock,
    log: pino({ level: "silent" }),
    on_step: () => {},
    requires_signature: () => requires_signature,
  });
  const { container_id } = await replacement.choose("main", release, { fresh: false, signal: new AbortController().signal });
  return { container_id, image: created.Image, removed: stub.requests.some((line) => line.startsWith("DELETE")) };
}

test("replaces a container whose image is not the signed image", async (t) => {
  const other = { image_id: "sha256:bb", requires_signature: true };
  assert.deepEqual(await choose(t, other), { container_id: "new", image: SIGNED, removed: true });
  const kept = { container_id: "there", image: undefined, removed: false };
  assert.deepEqual(await choose(t, { ...other, image_id: "sha256:aa" }), kept);
  assert.deepEqual(await choose(t, { ...other, requires_signature: false }), kept);
});

import { createHash } from "node:crypto";
import { after, before } from "node:test";
import type { AgentConfig } from "../contract.ts";
import type { DeploymentsTuning } from "../deployments/index.ts";
import { DeploymentsRig } from "./deployments-rig.ts";
import { DockerEngine, whyNoDockerd } from "./docker-engine.ts";
import { releaseOf, type TestRelease } from "./bundles.ts";

export const SKIP = whyNoDockerd();

/** Starts one container engine for all tests of a file, if that is possible here. */
export function useEngine(): () => DockerEngine {
  let engine: DockerEngine | undefined;
  before(async () => {
    if (SKIP === undefined) engine = await DockerEngine.start();
  });
  after(async () => engine?.[Symbol.asyncDispose]());
  return () => {
    if (engine === undefined) throw new Error("no engine was started");
    return engine;
  };
}

export const startContainerRig = (engine: DockerEngine, config: Partial<AgentConfig> = {}, tuning: DeploymentsTuning = {}) =>
  DeploymentsRig.start({ config: { container_sockets: [engine.socket], ...config }, tuning });

export interface TestContainer {
  id: string;
  tag: string;
  state: string;
  image_id: string;
}

/** Returns the containers of one robot, with the release tag of each. */
export async function containersOf(engine: DockerEngine, state_directory: string): Promise<TestContainer[]> {
  const all = await engine.containers();
  return all
    .filter(({ Labels }) => Labels["roamfleet.state"] === state_directory)
    .map(({ Id, Labels, State, ImageID }) => ({ id: Id, tag: Labels["roamfleet.release"] ?? "", state: State, image_id: ImageID }))
    .toSorted((a, b) => a.tag.localeCompare(b.tag));
}

export const runningTags = async (engine: DockerEngine, state_directory: string): Promise<string[]> =>
  (await containersOf(engine, state_directory)).filter(({ state }) => state === "running").map(({ tag }) => tag);

/** Returns the start and end events of a robot's containers, oldest first, as the engine recorded them. */
export async function containerEvents(
  engine: DockerEngine,
  state_directory: string,
): Promise<{ tag: string; what: string; at_ms: number }[]> {
  const filters = { event: ["start", "die"], label: [`roamfleet.state=${state_directory}`] };
  const told = await engine.ask(
    "GET",
    `/events?since=0&until=${Date.now() / 1_000}&filters=${encodeURIComponent(JSON.stringify(filters))}`,
  );
  const events = told
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { Action: string; Actor: { Attributes: Record<string, string> }; timeNano: number });
  return events.map(({ Action, Actor, timeNano }) => ({
    tag: Actor.Attributes["roamfleet.release"] ?? "",
    what: Action,
    at_ms: timeNano / 1e6,
  }));
}

/** Returns the ids of the releases whose images one robot has in the engine. */
export async function imageReleases(engine: DockerEngine, state_directory: string): Promise<string[]> {
  const owner = createHash("sha256").update(state_directory).digest("hex").slice(0, 8);
  const names = (await engine.images()).flatMap(({ RepoTags }) => RepoTags ?? []);
  return names
    .filter((name) => name.startsWith(`roamfleet.local/apps:${owner}.`))
    .map((name) => name.slice(name.lastIndexOf(".") + 1))
    .toSorted();
}

/** Creates a release whose image is in a registry. */
export const registryRelease = (id: string, image: string, more: Partial<TestRelease["release"]> = {}): TestRelease =>
  releaseOf(id, Buffer.from(image), { kind: "container_image", image, manifest: { host_network: true, stop_timeout_seconds: 1 }, ...more });

import { isOutdatedAgent } from "@roamfleet/protocol/agent-version";
import { AGENT_APP, debianArch } from "@roamfleet/protocol/states";
import type { Body, Client } from "@roamfleet/sdk";
import {
  type AgentDescription,
  agentText,
  describeTarball,
  downloadTarball,
  type HostedTarball,
  hostedVersion,
  listHostedTarballs,
  NONE_HOSTED,
} from "../agent-packages.ts";
import { type Artifact, digestFile } from "../artifact.ts";
import { collect, defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { bytes } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { type LimitOption, limitOption, readList } from "../lists.ts";
import { startProgress } from "../progress.ts";
import { readRollout, requireOneTarget, type RolloutFlags, rolloutOptions } from "../rollout-options.ts";
import { signatureOf, signOptions, type SignOptions } from "../signing-key.ts";
import { line } from "../text.ts";
import { watchDeployment } from "../watch.ts";
import { createRelease, upload } from "./releases.ts";

type Robot = Body<"listRobots">["items"][number];
type Release = Body<"createRelease">["data"];
type Deployment = Body<"createDeployment">["data"];

interface ListOptions extends LimitOption {
  fleet?: string;
  site?: string;
  outdated?: true;
}

const archOf = ({ platform }: Pick<Robot, "platform">): string | undefined =>
  platform?.arch === undefined ? undefined : debianArch(platform.arch);

/** Tag of the release that installed the agent; null if the agent was installed from a package or started in another way. */
const releaseOf = ({ apps }: Pick<Robot, "apps">): string | null => apps.find(({ app }) => app === AGENT_APP)?.current?.tag ?? null;

export const list = defineCommand<[ListOptions]>(
  "List the versions of the robots' agents. An agent is outdated if the server hosts packages of a newer version.",
  (command) =>
    limitOption(command)
      .option("--fleet <id>", "Only robots of this fleet")
      .option("--site <id>", "Only robots at this site")
      .option("--outdated", "Only agents older than the version that the server hosts"),
  async (context, { limit, fleet, site, outdated }) => {
    const { out } = context;
    const client = await context.client();
    const hosted = await hostedVersion(client);
    if (outdated && hosted === undefined)
      throw usage("the server hosts no packages, so rf cannot tell which agents are outdated", NONE_HOSTED);
    const query = { fleet_id: fleet, site_id: site, agent_older_than: outdated ? hosted : undefined };
    const robots = await readList(client, "listRobots", limit, { query });
    const items = robots.items.map((robot) => ({
      robot_id: robot.id,
      name: robot.name,
      status: robot.status,
      version: robot.agent_version,
      outdated: isOutdatedAgent(robot.agent_version, hosted),
      arch: archOf(robot) ?? null,
      release: releaseOf(robot),
    }));
    await out.result({ hosted_version: hosted ?? null, items, next_cursor: robots.next_cursor }, async () => {
      if (items.length === 0) return out.note(outdated ? "No outdated agents" : "No matching robots");
      await out.table(items, [
        { title: "ID", value: ({ robot_id }) => robot_id },
        { title: "NAME", value: ({ name }) => name },
        { title: "STATUS", value: ({ status }) => out.status(status) },
        { title: "AGENT", value: ({ version }) => agentText(version, hosted) ?? "–" },
        { title: "ARCH", value: ({ arch }) => arch ?? "–" },
        { title: "RELEASE", value: ({ release }) => release ?? "–" },
      ]);
    });
  },
  ["rf agents list --fleet fleet_… --outdated"],
);

interface UpgradeOptions extends RolloutFlags, SignOptions {
  robot?: string;
  fleet?: string;
  to?: string;
  file?: string[];
  watch?: true;
}

export const upgrade = defineCommand<[UpgradeOptions]>(
  "Upgrade the agents of a robot or a fleet: to the version that the server hosts, to another released version, or to the version in agent tarballs. Creates one release and one deployment for each architecture of the robots. An agent that fails after the upgrade rolls back to its previous version automatically.",
  (command) => {
    command
      .option("--robot <id>", "Upgrade the agent of this robot")
      .option("--fleet <id>", "Upgrade the agents of this fleet")
      .option("--to <version>", "Version to install, either hosted by the server or already released (default: the hosted version)")
      .option("--file <path>", "Agent tarball from `npm run package`; repeatable, one for each architecture", collect)
      .option("--watch", "Follow the deployments until they end");
    rolloutOptions(command);
    signOptions(command);
  },
  async (context, options) => {
    requireOneTarget(options);
    if (options.to !== undefined && options.file !== undefined) throw usage("--to and --file cannot be used together");
    const rollout = await readRollout(options, context.now());
    const client = await context.client();
    const robots = await readRobots(client, options);
    const by_arch = Map.groupBy(robots, archOf);
    const unknown = (by_arch.get(undefined) ?? []).length;
    by_arch.delete(undefined);
    if (by_arch.size === 0)
      throw new Failure(EXIT.not_found, "no robot has reported its architecture", { hints: ["Robots report it when they connect."] });
    const packages = await findPackages(context, client, options, [...by_arch.keys()].map(String));
    if (options.watch && context.structured && packages.length > 1)
      throw usage(
        "--watch would follow several deployments, but structured output is one document",
        "Omit --watch, then follow each: rf deployments watch <id>",
      );
    const releases: Release[] = [];
    for (const one of packages) releases.push(await release(context, client, one, options));
    const data: Deployment[] = [];
    for (const { id } of releases) {
      const body = { release: id, robot_id: options.robot, fleet_id: options.fleet, rollout };
      data.push((await client.createDeployment({ body, idempotency_key: context.idempotencyKey() })).data);
    }
    if (options.watch) {
      for (const deployment of data) await watchDeployment(context, client, deployment);
      return;
    }
    await context.out.result({ items: data, robots_without_architecture: unknown }, () => {
      for (const { id, release: of, status } of data) {
        context.out.line(line`Deployment ${id}: ${of.tag}, ${context.out.status(status)}`);
        context.out.line(line`Follow it: rf deployments watch ${id}`);
      }
      if (unknown > 0) context.out.note(`${unknown} robots have not reported their architecture: their agents are not upgraded.`);
    });
  },
  [
    "rf agents upgrade --robot rob_… --watch",
    "rf agents upgrade --fleet fleet_… --wave 5% --wave 50% --soak 10m --fail-threshold 10%",
    "rf agents upgrade --fleet fleet_… --to 1.2.3",
    "rf agents upgrade --fleet fleet_… --file roamfleet-agent_1.2.3_amd64.tar.gz --file roamfleet-agent_1.2.3_arm64.tar.gz",
  ],
);

async function readRobots(client: Client, { robot, fleet }: UpgradeOptions): Promise<Pick<Robot, "platform" | "agent_version">[]> {
  if (robot !== undefined) return [(await client.getRobot({ params: { id: robot } })).data];
  const { items } = await readList(client, "listRobots", undefined, { query: { fleet_id: fleet } });
  if (items.length > 0) return items;
  await client.getFleet({ params: { id: fleet ?? "" } });
  throw new Failure(EXIT.not_found, `fleet ${fleet} has no robots`);
}

/** A version of the agent for one architecture: a release, a hosted tarball, or a file. */
type Package = AgentDescription & ({ release: Release } | { hosted: HostedTarball } | { file: string; artifact: Artifact });

/**
 * Finds the package for each architecture. Throws a Failure if any package is missing, so that a release is created for all architectures
 * or for none.
 */
async function findPackages(context: Context, client: Client, options: UpgradeOptions, archs: readonly string[]): Promise<Package[]> {
  const found = options.file === undefined ? await findOnServer(client, options.to) : await readFiles(context, options.file);
  const packages = archs.flatMap((arch) => found.find((one) => one.arch === arch) ?? []);
  const missing = archs.filter((arch) => !packages.some((one) => one.arch === arch));
  if (missing.length === 0) return packages;
  const needed = missing.join(" and ");
  if (options.file !== undefined)
    throw usage(`no --file contains an agent for the architecture ${needed}`, "Pass one file for each architecture of the robots.");
  if (options.to === undefined && found.length === 0)
    throw new Failure(EXIT.not_found, "the server hosts no packages", { hints: [NONE_HOSTED, FILES] });
  const message =
    options.to === undefined
      ? `the server hosts no agent for the architecture ${needed}`
      : `agent ${options.to} for the architecture ${needed} is neither hosted by the server nor released`;
  throw new Failure(EXIT.not_found, message, { hints: [FILES] });
}

const FILES = "Or pass agent tarballs: rf agents upgrade --file <tarball>";

/** Returns the packages of the hosted version or, with `version`, the hosted packages and releases of that version. */
async function findOnServer(client: Client, version: string | undefined): Promise<Package[]> {
  const hosted = (await listHostedTarballs(client)).map((one) => ({ version: one.version, arch: one.arch, hosted: one, ...commitOf(one) }));
  if (version === undefined) return hosted;
  const { items } = await readList(client, "listReleases", undefined, { query: { app: AGENT_APP } });
  const released = items.flatMap((release): Package[] => {
    const manifest = release.manifest as AgentDescription | null;
    return release.kind === "agent" && release.artifact_state === "stored" && manifest !== null
      ? [{ version: manifest.version, arch: manifest.arch, release }]
      : [];
  });
  return [...hosted, ...released].filter((one) => one.version === version);
}

const commitOf = ({ commit }: AgentDescription) => (commit === undefined ? {} : { commit });

async function readFiles({ out, clock }: Context, files: readonly string[]): Promise<Package[]> {
  const packages: Package[] = [];
  for (const file of files) {
    const progress = await startProgress(out, clock, "Reading", bytes);
    try {
      packages.push({
        ...(await describeTarball(file)),
        file,
        artifact: await digestFile(file, (done, total) => progress.update(done, total)),
      });
    } finally {
      progress.stop();
    }
  }
  return packages;
}

/** Returns the release of a package. Creates it, and uploads its artifact, if that has not been done before. */
async function release(context: Context, client: Client, one: Package, options: SignOptions): Promise<Release> {
  if ("release" in one) return one.release;
  const { version, arch } = one;
  const { sha256, size } = "hosted" in one ? one.hosted : one.artifact;
  const described = {
    tag: `agent-${version}-${arch}`,
    kind: "agent",
    app: AGENT_APP,
    manifest: { version, arch, ...commitOf(one) },
    artifact_sha256: sha256,
    artifact_size: size,
  };
  const signature = await signatureOf(client, context.now(), { ...described, images: [] }, options);
  const hints = [
    "Robots install only one build of each version. Build the packages with another version number.",
    `To upgrade to the earlier build, run: rf deploy ${described.tag} --fleet <id>`,
    `If the earlier build is not in use, \`rf releases remove ${described.tag}\` frees the tag.`,
  ];
  const { data } = await createRelease(context, client, { ...described, signature }, hints);
  if (data.artifact_state !== "awaiting_upload") return data;
  if ("file" in one) return (await upload(context, client, one.file, one.artifact, data.id)).data;
  const progress = await startProgress(context.out, context.clock, "Downloading", bytes);
  const on_progress = (done: number, total: number): void => progress.update(done, total);
  const download = { clock: context.clock, signal: context.interruptible(), on_progress };
  await using downloaded = await downloadTarball(client, one.hosted, download).finally(() => progress.stop());
  return (await upload(context, client, downloaded.file, { sha256, size }, data.id)).data;
}

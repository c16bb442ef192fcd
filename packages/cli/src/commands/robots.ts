import { CONFIG_STATES, HEALTH_STATES, RELEASE_STATES, ROBOT_STATUSES } from "@roamfleet/protocol/states";
import type { Arguments, Body, Client } from "@roamfleet/sdk";
import { Option } from "commander";
import { agentText, hostedVersion, NONE_HOSTED } from "../agent-packages.ts";
import { collect, defineCommand, requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { EXIT, type ExitCode } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { labelsText, line } from "../text.ts";
import { installLine, showKeyUse, withInstallLine } from "./keys.ts";

interface Options extends LimitOption {
  search?: string;
  status?: (typeof ROBOT_STATUSES)[number];
  health?: (typeof HEALTH_STATES)[number];
  release?: string;
  app?: string;
  state?: (typeof RELEASE_STATES)[number];
  config?: (typeof CONFIG_STATES)[number];
  label?: string[];
  fleet?: string;
  site?: string;
  outdatedAgent?: boolean;
  sort?: "newest" | "name";
}

export const list = defineCommand<[Options]>(
  undefined,
  (command) =>
    limitOption(command)
      .option("--search <text>", "Only robots whose name contains this text, ignoring case")
      .addOption(new Option("--status <status>", "Only robots in this status").choices(ROBOT_STATUSES))
      .addOption(
        new Option("--health <health>", "Only robots with this health; failing means that at least one check fails").choices(HEALTH_STATES),
      )
      .option("--release <release>", "Only robots that run this release (tag or id)")
      .option("--app <name>", "Only robots with this app; --state then applies to this app")
      .addOption(
        new Option(
          "--state <state>",
          "Only robots with an app in this state; for current and unknown, no app may be in a worse state",
        ).choices(RELEASE_STATES),
      )
      .addOption(new Option("--config <state>", "Only robots with this config state").choices(CONFIG_STATES))
      .option("--label <key=value>", "Only robots with this label (repeatable; all must match)", collect)
      .option("--fleet <id>", "Only robots of this fleet")
      .option("--site <id>", "Only robots at this site")
      .option("--outdated-agent", "Only robots whose agent is older than the version that the server hosts")
      .addOption(new Option("--sort <order>", "Sort order (default: newest)").choices(["newest", "name"])),
  async (context, options) => {
    const hosted =
      options.outdatedAgent === true || context.out.showsWide("AGENT") ? await hostedVersion(await context.client()) : undefined;
    if (options.outdatedAgent === true && hosted === undefined)
      throw usage("the server hosts no packages, so rf cannot tell which agents are outdated", NONE_HOSTED);
    const query = { ...queryOf(options), agent_older_than: options.outdatedAgent === true ? hosted : undefined };
    await printList(context, "listRobots", {
      limit: options.limit,
      query,
      filter: { ...query, sort: undefined },
      no_match: "No matching robots",
      empty: "No robots yet. Create a key to enroll them: rf keys new --site <id> --fleet <id>",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "NAME", value: ({ name }) => name },
        { title: "STATUS", value: ({ status }) => context.out.status(status) },
        { title: "LAST SEEN", value: ({ last_seen_at }) => relative(last_seen_at, context.now()) },
        { title: "RELEASE", value: ({ apps }) => releasesText(apps) },
        { title: "STATE", value: ({ release_state }) => context.out.status(release_state) },
        { title: "CONFIG", value: ({ config_state }) => context.out.status(config_state) },
        { title: "HEALTH", value: ({ health }) => context.out.status(health), wide: true },
        { title: "FAILING", value: ({ failing }) => failing.join(", ") || "–", wide: true },
        { title: "SITE", value: ({ site_id }) => site_id, wide: true },
        { title: "FLEET", value: ({ fleet_id }) => fleet_id, wide: true },
        { title: "LABELS", value: ({ labels }) => labelsText(labels), wide: true },
        { title: "AGENT", value: ({ agent_version }) => agentText(agent_version, hosted) ?? "–", wide: true },
        { title: "PLATFORM", value: ({ platform }) => (platform === null ? "–" : `${platform.os} ${platform.arch}`), wide: true },
        { title: "ENROLLED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
      ],
    });
  },
);

/** Formats the release of every app. The app's name is omitted if `main` is the robot's only app. */
function releasesText(apps: readonly { app: string; current: { tag: string } | null; release_state: string }[]): string {
  const [first] = apps;
  if (first === undefined) return "–";
  if (apps.length === 1 && first.app === "main") return first.current?.tag ?? "–";
  return apps
    .map(
      ({ app, current, release_state }) =>
        `${app} ${current?.tag ?? "–"}${NEEDS_ATTENTION.has(release_state) ? ` (${release_state})` : ""}`,
    )
    .join(", ");
}

/** States that are shown beside an app's release, because the STATE column shows only the worst state of all apps. */
const NEEDS_ATTENTION: ReadonlySet<string> = new Set(["failed", "behind"]);

const queryOf = (options: Options) => ({
  q: options.search,
  status: options.status,
  health: options.health,
  release_id: options.release,
  app: options.app,
  release_state: options.state,
  config_state: options.config,
  label: options.label?.map(labelQuery),
  fleet_id: options.fleet,
  site_id: options.site,
  sort: options.sort,
});

/** Converts KEY=VALUE of an option to KEY:VALUE of a query. */
export function labelQuery(text: string): string {
  const at = text.indexOf("=");
  if (at < 1) throw usage(`--label ${text} is not a label`, "Use --label zone=a.");
  return `${text.slice(0, at)}:${text.slice(at + 1)}`;
}

export const show = defineCommand<[string]>(
  undefined,
  (command) => command.argument("<id>", "ID of the robot"),
  async (context, id) => {
    const { out } = context;
    const client = await context.client();
    const answer = await client.getRobot({ params: { id } });
    const robot = answer.data;
    await out.result(answer, async () => {
      const hosted = await hostedVersion(client);
      out.details([
        ["ID", robot.id],
        ["Name", robot.name],
        ["Status", out.status(robot.status)],
        ["Last seen", relative(robot.last_seen_at, context.now())],
        ["Health", robot.failing.length === 0 ? out.status(robot.health) : line`${out.status(robot.health)}: ${robot.failing.join(", ")}`],
        ...(robot.held_at === null
          ? []
          : [["Quarantined", `${relative(robot.held_at, context.now())}: several machines use this identity`] as const]),
        ...(robot.approval === "approved"
          ? []
          : [["Approval", "pending: secrets are withheld until an admin approves the robot"] as const]),
        ["Site", robot.site_id],
        ["Fleet", robot.fleet_id],
        ["Labels", labelsText(robot.labels)],
        ["Agent", agentText(robot.agent_version, hosted) ?? "unknown"],
        ["Platform", robot.platform === null ? "unknown" : `${robot.platform.os} ${robot.platform.arch}, ${robot.platform.hostname}`],
        ["Config", out.status(robot.config_state)],
        ["Key", robot.public_key_type === "ecdsa_p256" ? line`${robot.public_key_fingerprint} (in the TPM)` : robot.public_key_fingerprint],
        ["Enrolled", relative(robot.created_at, context.now())],
      ]);
      if (robot.apps.length === 0) return out.line("\nNo releases deployed yet. Deploy one: rf deploy <release> --robot <id>");
      out.line();
      await out.table(robot.apps, [
        { title: "APP", value: ({ app }) => app },
        { title: "CURRENT", value: ({ current }) => current?.tag ?? "–" },
        { title: "DESIRED", value: ({ desired }) => desired?.tag ?? "–" },
        { title: "STATUS", value: ({ status }) => out.status(status) },
      ]);
      for (const note of await explainAutomaticDeployments(client, robot)) out.line(note);
    });
  },
);

const CAUSES: Record<string, string> = {
  joined: "because the robot joined a fleet with this release",
  returned: "because the robot was offline when the fleet's deployment expired",
};
const DEPLOYMENTS_READ_MAX = 20;

/** Returns one line with the cause for each app whose latest release was deployed automatically by the system. */
async function explainAutomaticDeployments(client: Client, robot: Body<"getRobot">["data"]): Promise<string[]> {
  const { items } = await client.listDeployments({ query: { robot_id: robot.id, limit: DEPLOYMENTS_READ_MAX } });
  const lines = robot.apps.map(async ({ app, current, desired }) => {
    const latest = items.find(({ release }) => release.app === app);
    if (latest === undefined || latest.created_by.type !== "system" || latest.release.id !== (desired ?? current)?.id) return [];
    const { items: events } = await client.listDeploymentEvents({ params: { id: latest.id }, query: { limit: 1 } });
    const because = CAUSES[String(events[0]?.data["cause"])];
    return because === undefined ? [] : [line`${app} ${latest.release.tag} was deployed automatically, ${because}: ${latest.id}`];
  });
  return (await Promise.all(lines)).flat();
}

export const rename = requestCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the robot").argument("<name>", "New name"),
  (client, _, id: string, name: string) => client.updateRobot({ params: { id }, body: { name } }),
  ({ data }) => line`Renamed robot ${data.id} to ${data.name}.`,
  ["rf robots rename rob_… cart-7"],
);

export const label = defineCommand<[string[]]>(
  "Set or remove labels of robots: KEY=VALUE sets a label, KEY- removes it. Other labels are kept.",
  (command) => command.argument("<id-or-label...>", "IDs of robots, and the labels to set or remove"),
  async (context, words) => {
    const set: Record<string, string> = {};
    const remove: string[] = [];
    const ids: string[] = [];
    for (const word of words) {
      const at = word.indexOf("=");
      if (at > 0) set[word.slice(0, at)] = word.slice(at + 1);
      else if (word.length > 1 && word.endsWith("-")) remove.push(word.slice(0, -1));
      else ids.push(word);
    }
    if (ids.length === 0) throw usage("no robot given", "rf robots label <id…> KEY=VALUE KEY-");
    if (Object.keys(set).length + remove.length === 0) throw usage("no label given", "KEY=VALUE sets a label, KEY- removes it.");
    await changeRobots(context, ids, { labels: { set, remove } }, "Labeled");
  },
  ["rf robots label rob_… zone=a rack=7", "rf robots label rob_… rob_… zone=b spare-"],
);

export const move = defineCommand<[string[], { fleet: string }]>(
  "Move robots to another fleet and its site. They update to the fleet's releases and config, unless --follow is off there.",
  (command) => command.argument("<id...>", "IDs of robots").requiredOption("--fleet <id>", "Target fleet"),
  (context, ids, { fleet }) => changeRobots(context, ids, { fleet_id: fleet }, "Moved"),
  ["rf robots move rob_… rob_… --fleet fleet_…"],
);

export const replace = defineCommand<[string]>(
  "Create a key for a robot's replacement computer. The computer that enrolls with it becomes the robot, with its name, fleet and releases; the old computer is then refused.",
  (command) => command.argument("<id>", "ID of the robot"),
  async (context, id) => {
    const client = await context.client();
    // Sends no idempotency key: the response to a retry would not contain the secret.
    const answer = await client.replaceRobot({ params: { id } });
    const { out } = context;
    const install = await installLine(context, client, answer.data.key);
    await out.result(withInstallLine(answer, install), () => {
      const { key, trusted, expires_at } = answer.data;
      out.details([
        ["Robot", id],
        ["Key", out.paint("strong", key)],
        ["Uses", 1],
        ["Secrets", trusted ? "still sent to the robot" : "sent after an admin approves the robot"],
        ["Expires", relative(expires_at, context.now())],
      ]);
      showKeyUse(context, client, key, install);
    });
  },
);

export const admit = defineCommand<[string]>(
  "Unblock a robot that is quarantined because several machines use its identity. Turn off the other machines first, or give the robot a new key: rf robots replace <id>",
  (command) => command.argument("<id>", "ID of the robot"),
  async (context, id) => {
    const client = await context.client();
    const { held_at } = (await client.getRobot({ params: { id } })).data;
    const answer = await client.releaseHold({ params: { id }, idempotency_key: context.idempotencyKey() });
    await context.out.result(answer, () => {
      const { name } = answer.data;
      context.out.line(
        held_at === null
          ? line`Robot ${name} was not quarantined: nothing changed.`
          : line`Robot ${name} is unblocked. It reconnects within five minutes.`,
      );
    });
  },
);

export const approve = defineCommand<[string]>(
  "Approve a robot that enrolled with an untrusted key: it then receives secret config values and registry logins. Verify first that the computer is yours. Needs the role admin in the whole org.",
  (command) => command.argument("<id>", "ID of the robot"),
  async (context, id) => {
    const client = await context.client();
    const before = (await client.getRobot({ params: { id } })).data.approval;
    const answer = await client.approveRobot({ params: { id }, idempotency_key: context.idempotencyKey() });
    await context.out.result(answer, () => {
      const { name } = answer.data;
      context.out.line(before === "approved" ? line`Robot ${name} was already approved.` : line`Robot ${name} is approved.`);
    });
  },
  ["rf robots approve rob_…"],
);

export const remove = requestCommand(
  "Decommission a robot permanently: its deployments are cancelled, its connection is closed, and its key is revoked. Its history is kept, and the machine keeps running its apps.",
  (command) => command.argument("<id>", "ID of the robot"),
  (client, _, id: string) => client.deleteRobot({ params: { id } }),
  ({ data }) => [
    line`Robot ${data.name} is decommissioned: ${data.id}`,
    "To use the machine again, empty the agent's state directory and enroll the machine again.",
  ],
  ["rf robots remove rob_…"],
);

type Change = Omit<Arguments<"bulkUpdateRobots">["body"], "robot_ids">;

/** Robots per request: the maximum that the service accepts. */
const REQUEST_ROBOTS_MAX = 1_000;

/** Changes many robots, reports each failure with its reason, and exits with the code of the first failure. */
async function changeRobots(context: Context, ids: readonly string[], change: Change, done: string): Promise<void> {
  const client = await context.client();
  const items: Body<"bulkUpdateRobots">["items"] = [];
  for (let from = 0; from < ids.length; from += REQUEST_ROBOTS_MAX) {
    const body = { ...change, robot_ids: ids.slice(from, from + REQUEST_ROBOTS_MAX) };
    items.push(...(await client.bulkUpdateRobots({ body, idempotency_key: context.idempotencyKey() })).items);
  }
  const refused = items.filter(({ outcome }) => !(outcome in GOOD));
  const count = (outcome: string): number => items.filter((item) => item.outcome === outcome).length;
  await context.out.result({ items }, () => {
    const [changed, unchanged] = [count("changed"), count("unchanged")];
    if (changed > 0) context.out.line(line`${done} ${String(changed)} ${changed === 1 ? "robot" : "robots"}.`);
    if (unchanged > 0) context.out.line(line`${String(unchanged)} ${unchanged === 1 ? "was" : "were"} already up to date.`);
  });
  const [first] = refused;
  if (first === undefined) return;
  throw new Failure(
    CODES[first.outcome] ?? EXIT.error,
    refused.length === 1 ? (first.message ?? first.outcome) : `${refused.length} of ${items.length} robots were not changed`,
    { document: undefined, hints: refused.length === 1 ? [] : refused.slice(0, 10).map(({ robot_id, message }) => message ?? robot_id) },
  );
}

const GOOD: Record<string, true> = { changed: true, unchanged: true };
const CODES: Record<string, ExitCode> = { not_found: EXIT.not_found, forbidden: EXIT.auth, conflict: EXIT.conflict };

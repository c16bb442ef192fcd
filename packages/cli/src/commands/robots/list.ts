import { Option } from "commander";
import { collect, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { usage } from "../../failure.ts";
import { labelsText } from "../../labels.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";

const STATUSES = ["online", "offline", "never_connected", "decommissioned"] as const;
const HEALTH = ["ok", "failing", "unknown"] as const;
const RELEASE_STATES = ["current", "behind", "failed", "unknown"] as const;
const CONFIG_STATES = ["in_sync", "pending", "drifted", "unknown"] as const;

interface Options extends LimitOption {
  search?: string;
  status?: (typeof STATUSES)[number];
  health?: (typeof HEALTH)[number];
  release?: string;
  app?: string;
  state?: (typeof RELEASE_STATES)[number];
  config?: (typeof CONFIG_STATES)[number];
  label?: string[];
  fleet?: string;
  site?: string;
  sort?: "newest" | "name";
}

export const define: Define = (command, act) => {
  limitOption(command)
    .option("--search <text>", "Only robots whose name contains this text, ignoring case")
    .addOption(new Option("--status <status>", "Only robots in this status").choices(STATUSES))
    .addOption(new Option("--health <health>", "Only robots with this health; failing if any check fails").choices(HEALTH))
    .option("--release <release>", "Only robots that run this release (tag or id)")
    .option("--app <name>", "Only robots with this app; --state then applies to this app")
    .addOption(
      new Option("--state <state>", "Only robots with an app in this state; current and unknown apply to all apps").choices(RELEASE_STATES),
    )
    .addOption(new Option("--config <state>", "Only robots with this config state").choices(CONFIG_STATES))
    .option("--label <key=value>", "Only robots with this label (repeatable; all must match)", collect)
    .option("--fleet <id>", "Only robots of this fleet")
    .option("--site <id>", "Only robots at this site")
    .addOption(new Option("--sort <order>", "Sort order (default: newest)").choices(["newest", "name"]))
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = queryOf(options);
  const answer = await readList(await context.client(), "listRobots", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(
        isFiltered({ ...query, sort: undefined })
          ? "No matching robots"
          : "No robots yet. Create a key to enroll them: rf keys new --site <id> --fleet <id>",
      );
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "NAME", value: ({ name }) => name },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "LAST SEEN", value: ({ last_seen_at }) => relative(last_seen_at, context.now()) },
      { title: "RELEASE", value: ({ apps }) => releasesText(apps) },
      { title: "STATE", value: ({ release_state }) => out.status(release_state) },
      { title: "CONFIG", value: ({ config_state }) => out.status(config_state) },
      { title: "HEALTH", value: ({ health }) => out.status(health), wide: true },
      { title: "FAILING", value: ({ failing }) => failing.join(", ") || "–", wide: true },
      { title: "SITE", value: ({ site_id }) => site_id, wide: true },
      { title: "FLEET", value: ({ fleet_id }) => fleet_id, wide: true },
      { title: "LABELS", value: ({ labels }) => labelsText(labels), wide: true },
      { title: "AGENT", value: ({ agent_version }) => agent_version ?? "–", wide: true },
      { title: "PLATFORM", value: ({ platform }) => (platform === null ? "–" : `${platform.os} ${platform.arch}`), wide: true },
      { title: "ENROLLED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ]);
  });
}

/** Formats the release of every app; a robot whose only app is `main` omits the app's name. */
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

/** The STATE column shows the worst state of all apps; for these states the app is named. */
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

function labelQuery(text: string): string {
  const at = text.indexOf("=");
  if (at < 1) throw usage(`--label ${text} is not a label`, "Use --label zone=a.");
  return `${text.slice(0, at)}:${text.slice(at + 1)}`;
}

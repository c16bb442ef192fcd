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
    .option("--search <text>", "Only those with this text in their name, in any case")
    .addOption(new Option("--status <status>", "Only those in this status").choices(STATUSES))
    .addOption(new Option("--health <health>", "Only those that are so: failing when a check of theirs fails").choices(HEALTH))
    .option("--release <release>", "Only those that run this release, by its tag or id")
    .option("--app <name>", "Only those that have this app; --state is then about this app")
    .addOption(new Option("--state <state>", "Only those with an app in this state; current and unknown: all apps").choices(RELEASE_STATES))
    .addOption(new Option("--config <state>", "Only those whose config is so").choices(CONFIG_STATES))
    .option("--label <key=value>", "Only those with this label; repeatable: with all of them", collect)
    .option("--fleet <id>", "Only those of this fleet")
    .option("--site <id>", "Only those at this site")
    .addOption(new Option("--sort <order>", "In this order (default: newest)").choices(["newest", "name"]))
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
          : "No robots yet. Make a key with which they enrol: rf keys new --site <id> --fleet <id>",
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

/** What every app runs; a robot whose only app is `main` needs no name of the app. */
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

/** The STATE column has the worst state of all apps: these say of which app it is. */
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
  if (at < 1) throw usage(`--label ${text} is no label`, "Write --label zone=a.");
  return `${text.slice(0, at)}:${text.slice(at + 1)}`;
}

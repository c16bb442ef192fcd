import type { Body } from "@roamfleet/sdk";
import { Option } from "commander";
import { type AdminOption, adminOption, asAdmin } from "./orgs.ts";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { usage } from "../failure.ts";
import { limitOption, type LimitOption, readList } from "../lists.ts";
import { JSON_LINES, printBody, requestBody } from "../response-body.ts";
import { readTime, type TimeOption } from "../duration.ts";

type Entry = Body<"listAudit">["items"][number];

const OUTCOMES = ["done", "refused"] as const;
/** Entries shown without --limit. */
const SHOWN = 50;

interface Options extends LimitOption, AdminOption {
  since?: TimeOption;
  until?: TimeOption;
  action?: string;
  actor?: string;
  tokenId?: string;
  object?: string;
  outcome?: (typeof OUTCOMES)[number];
  changes?: boolean;
  export?: boolean;
  service?: boolean;
}

export const audit = defineCommand<[Options]>(
  `Show who changed what and from where, newest first: ${SHOWN} entries, or the number in --limit. ` +
    "--export prints all entries, oldest first, as JSON lines.",
  (command) =>
    adminOption(
      limitOption(
        command
          .option("--since <time>", "Only entries since this time: an age such as 10m, 2h or 3d, or an RFC 3339 time", readTime)
          .option("--until <time>", "Only entries before this time", readTime)
          .option("--action <name>", "Only entries of this operation, such as createDeployment or stream.opened")
          .option("--actor <id>", "Only entries by this user, token or robot")
          .option("--token-id <id>", "Only entries of requests with this token")
          .option("--object <id>", "Only entries about this object, such as a robot or release")
          .option("--changes", "Only changes, shells, tunnels and file transfers; not what was read")
          .addOption(new Option("--outcome <outcome>", "Only completed or only refused operations").choices(OUTCOMES)),
      ),
    )
      .option("--export", "Print all entries as JSON lines")
      .option("--service", "Show operations on the service itself; needs the admin token"),
  async (context, options) => {
    const { action, actor: actor_id, tokenId: token_id, object: object_id, outcome, changes } = options;
    const now = context.now();
    const query = { since: options.since?.(now), until: options.until?.(now), action, actor_id, token_id, object_id, outcome, changes };
    if (options.export) {
      if (options.service) throw usage("--export cannot be used with --service; list those entries: rf audit --service --json");
      if (options.limit !== undefined) throw usage("--export prints every entry and cannot be used with --limit; use --since and --until");
      return printBody(await requestBody(await context.client(), "/api/audit/export", { query, headers: JSON_LINES }));
    }
    // Structured output contains all entries, as for every list.
    const limit = options.limit ?? (context.structured ? undefined : SHOWN);
    const answer = options.service
      ? await asAdmin(context, options, (client) => readList(client, "listServiceAudit", limit, { query }))
      : await readList(await context.client(), "listAudit", limit, { query });
    await context.out.result(answer, async () => {
      if (answer.items.length === 0) return context.out.note("No matching entries.");
      await show(context, answer.items);
      if (answer.next_cursor !== null && options.limit === undefined)
        context.out.note("More entries exist: use --limit, --since or --export.");
    });
  },
  ["rf audit --outcome refused --since 1d", "rf audit --export --since 2030-01-01T00:00:00Z > audit.ndjson"],
);

function show({ out }: Context, entries: readonly Entry[]): Promise<void> {
  return out.table(entries, [
    { title: "TIME", value: ({ at }) => at },
    { title: "ACTOR", value: ({ actor }) => actor.name ?? actor.id ?? actor.type },
    { title: "ACTION", value: ({ action }) => action },
    { title: "OBJECT", value: ({ object_id }) => object_id ?? "–" },
    { title: "OUTCOME", value: ({ error }) => (error === null ? out.status("ok") : out.paint("bad", error)) },
    { title: "FROM", value: ({ ip }) => ip },
    { title: "STATUS", value: ({ status }) => status ?? "–", wide: true },
    { title: "REQUEST", value: ({ method, path }) => `${method} ${path}`, wide: true },
    { title: "TOKEN", value: ({ token_id }) => token_id ?? "–", wide: true },
    { title: "CLIENT", value: ({ user_agent }) => user_agent ?? "–", wide: true },
    { title: "REQUEST ID", value: ({ request_id }) => request_id, wide: true },
  ]);
}

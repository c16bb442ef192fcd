import type { Client } from "@robofleet/sdk";
import { ApiError, type Body } from "@robofleet/sdk";
import { Option } from "commander";
import { type AdminOption, adminOption, asAdmin } from "../admin.ts";
import { addExamples, type Define } from "../command.ts";
import type { Context } from "../context.ts";
import { usage } from "../failure.ts";
import { printBody } from "../raw-body.ts";
import { type LimitOption, limitOption, readList } from "../lists.ts";
import { readTime, type TimeOption } from "../logs/options.ts";

type Entry = Body<"listAudit">["items"][number];

const OUTCOMES = ["done", "refused"] as const;
/** Entries that are shown when nobody says how many. */
const SHOWN = 50;

interface Options extends LimitOption, AdminOption {
  since?: TimeOption;
  until?: TimeOption;
  action?: string;
  actor?: string;
  tokenId?: string;
  object?: string;
  outcome?: (typeof OUTCOMES)[number];
  export?: boolean;
  service?: boolean;
}

export const define: Define = (command, act) => {
  adminOption(
    limitOption(
      command
        .description(
          `Show who changed what and from where, the newest first: ${SHOWN} entries, or as many as --limit says. ` +
            "--export prints all of them, the oldest first, a line of JSON each.",
        )
        .option("--since <time>", "Only from then on: 10m, 2h, 3d ago, or RFC 3339", readTime)
        .option("--until <time>", "Only before then", readTime)
        .option("--action <name>", "Only this operation, such as createDeployment or stream.opened")
        .option("--actor <id>", "Only by this user, token or robot")
        .option("--token-id <id>", "Only with this token")
        .option("--object <id>", "Only about this robot, release, …")
        .addOption(new Option("--outcome <outcome>", "Only what was done, or only what was refused").choices(OUTCOMES)),
    ),
  )
    .option("--export", "Print every entry as a line of JSON")
    .option("--service", "Acts on the service as a whole, for its administrator")
    .action(act<[Options]>(run));
  addExamples(command, ["rf audit --outcome refused --since 1d", "rf audit --export --since 2030-01-01T00:00:00Z > audit.ndjson"]);
};

async function run(context: Context, options: Options): Promise<void> {
  const { action, actor: actor_id, tokenId: token_id, object: object_id, outcome } = options;
  const now = context.now();
  const query = { since: options.since?.(now), until: options.until?.(now), action, actor_id, token_id, object_id, outcome };
  if (options.export) {
    if (options.service) throw usage("--export is for an org's entries; those of the service are listed: rf audit --service --json");
    if (options.limit !== undefined) throw usage("--export prints every entry; --since and --until limit it");
    return exportAll(await context.client(), query);
  }
  // A program gets all, as of every list.
  const limit = options.limit ?? (context.structured ? undefined : SHOWN);
  const answer = options.service
    ? await asAdmin(context, options, (client) => readList(client, "listServiceAudit", limit, { query }))
    : await readList(await context.client(), "listAudit", limit, { query });
  await context.out.result(answer, async () => {
    if (answer.items.length === 0) return context.out.note("No such entries.");
    await show(context, answer.items);
    if (answer.next_cursor !== null && options.limit === undefined) context.out.note("There are more: --limit, --since, --export.");
  });
}

function show({ out }: Context, entries: readonly Entry[]): Promise<void> {
  return out.table(entries, [
    { title: "TIME", value: ({ at }) => at },
    { title: "WHO", value: ({ actor }) => actor.name ?? actor.id ?? actor.type },
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

async function exportAll(client: Client, query: Record<string, string | undefined>): Promise<void> {
  const headers = { accept: "application/x-ndjson, application/json" };
  const response = await client.request("GET", "/api/audit/export", { query, headers });
  if (!response.ok || response.body === null) {
    const body: unknown = await response.json().catch(() => undefined);
    throw new ApiError({ status: response.status, headers: response.headers, body });
  }
  await printBody(response);
}

import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { bytes, relative } from "../../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";

interface Options extends LimitOption {
  app?: string;
  kind?: string;
  search?: string;
}

export const define: Define = (command, act) => {
  limitOption(command)
    .option("--app <name>", "Only releases of this app")
    .option("--kind <kind>", "Only releases of this kind")
    .option("--search <text>", "Only releases whose tag contains this text, ignoring case")
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { app: options.app, kind: options.kind, q: options.search };
  const answer = await readList(await context.client(), "listReleases", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(isFiltered(query) ? "No matching releases." : "No releases yet. Push one: rf releases push <path>");
    return out.table(answer.items, [
      { title: "TAG", value: ({ tag }) => tag },
      { title: "APP", value: ({ app }) => app },
      { title: "KIND", value: ({ kind }) => kind },
      { title: "SIZE", value: ({ artifact_size }) => bytes(artifact_size) },
      { title: "ARTIFACT", value: ({ artifact_state }) => out.status(artifact_state) },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
      { title: "ID", value: ({ id }) => id },
      { title: "SHA-256", value: ({ artifact_sha256 }) => artifact_sha256, wide: true },
      { title: "BY", value: ({ created_by }) => created_by ?? "–", wide: true },
      { title: "NOTES", value: ({ notes }) => notes ?? "–", wide: true },
    ]);
  });
}

import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { labelsText } from "../../labels.ts";
import { type LimitOption, limitOption, readList } from "../../lists.ts";

export const define: Define = (command, act) => {
  limitOption(command).action(act<[LimitOption]>(run));
};

async function run(context: Context, options: LimitOption): Promise<void> {
  const { out } = context;
  const answer = await readList(await context.client(), "listRobots", options.limit, {});
  await out.result(answer, () => {
    if (answer.items.length === 0) return out.note("No robots yet. Make a key with which they enrol: rf keys new --site <id> --fleet <id>");
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "NAME", value: ({ name }) => name },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "LAST SEEN", value: ({ last_seen_at }) => relative(last_seen_at, context.now()) },
      { title: "RELEASE", value: ({ current_release }) => current_release?.tag ?? "–" },
      { title: "STATE", value: ({ release_state }) => out.status(release_state) },
      { title: "CONFIG", value: ({ config_state }) => out.status(config_state) },
      { title: "SITE", value: ({ site_id }) => site_id, wide: true },
      { title: "FLEET", value: ({ fleet_id }) => fleet_id, wide: true },
      { title: "LABELS", value: ({ labels }) => labelsText(labels), wide: true },
      { title: "AGENT", value: ({ agent_version }) => agent_version ?? "–", wide: true },
      { title: "PLATFORM", value: ({ platform }) => (platform === null ? "–" : `${platform.os} ${platform.arch}`), wide: true },
      { title: "ENROLLED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ]);
  });
}

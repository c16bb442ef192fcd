import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { findRelease } from "../../find-release.ts";
import { showRelease } from "../../show-release.ts";

export const define: Define = (command, act) => {
  command.argument("<release>", "Tag or id of the release").action(act<[string]>(run));
};

async function run(context: Context, release: string): Promise<void> {
  const answer = await findRelease(await context.client(), release);
  await context.out.result(answer, () => showRelease(context, answer.data));
}

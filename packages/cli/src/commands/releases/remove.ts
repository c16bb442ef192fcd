import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { findRelease } from "../../find-release.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Delete a release that is not in use: no robot runs it, will run it or keeps it for a rollback, and it is not a fleet's current release. Its tag is freed immediately, the space of its artifact a day later.",
    )
    .argument("<release>", "Tag or id of the release")
    .action(act<[string]>(run));
  addExamples(command, ["rf releases remove 1.4.0-rc1"]);
};

async function run(context: Context, release: string): Promise<void> {
  const client = await context.client();
  const { id } = (await findRelease(client, release)).data;
  const answer = await client.deleteRelease({ params: { id } });
  await context.out.result(answer, () => context.out.line(line`Removed release ${answer.data.tag}: ${id}`));
}

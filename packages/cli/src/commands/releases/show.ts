import { isId } from "@robofleet/protocol";
import type { Body, Client } from "@robofleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure } from "../../failure.ts";
import { showRelease } from "../../show-release.ts";

export const define: Define = (command, act) => {
  command.argument("<release>", "Tag or id of the release").action(act<[string]>(run));
};

async function run(context: Context, release: string): Promise<void> {
  const answer = await findRelease(await context.client(), release);
  await context.out.result(answer, () => showRelease(context, answer.data));
}

async function findRelease(client: Client, release: string): Promise<Body<"getRelease">> {
  if (isId("release", release)) return client.getRelease({ params: { id: release } });
  const { items } = await client.listReleases({ query: { tag: release, limit: 1 } });
  // The list says less of a release than the release itself.
  if (items[0] !== undefined) return client.getRelease({ params: { id: items[0].id } });
  throw new Failure(EXIT.not_found, `release ${release} does not exist`, { hints: ["`rf releases list` shows what there is."] });
}

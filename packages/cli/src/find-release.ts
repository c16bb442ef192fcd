import { isId } from "@roamfleet/protocol";
import type { Body, Client } from "@roamfleet/sdk";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";

/** Returns the release with a tag or id. Throws a Failure if there is none. */
export async function findRelease(client: Client, release: string): Promise<Body<"getRelease">> {
  if (isId("release", release)) return client.getRelease({ params: { id: release } });
  const { items } = await client.listReleases({ query: { tag: release, limit: 1 } });
  // The list returns fewer fields than the release route.
  if (items[0] !== undefined) return client.getRelease({ params: { id: items[0].id } });
  throw new Failure(EXIT.not_found, `release ${release} does not exist`, { hints: ["`rf releases list` lists what exists."] });
}

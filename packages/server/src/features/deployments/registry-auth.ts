import type { Desired } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { listUnapproved } from "./store/approval.ts";
import { registryLogins } from "../configs/index.ts";

const DOCKER_HUB = "docker.io";

/** The registry that an image lies in, as Docker reads its name: without a host it is Docker's own. */
export function registryOf(image: string): string {
  const [first = "", ...rest] = image.split("/");
  const is_host = rest.length > 0 && (/[.:]/.test(first) || first === "localhost");
  return is_host ? first.toLowerCase() : DOCKER_HUB;
}

/**
 * Adds to what robots are told the logins of the registries whose images they are to run. In the message only: nothing of
 * it is written down, and a robot is told no other login, and none before it is approved. Without one that can be read the robot tries without.
 */
export async function addRegistryAuth(
  { db, secrets, log }: Pick<Plane, "db" | "secrets" | "log">,
  org_id: string,
  desired: ReadonlyMap<string, Desired>,
): Promise<void> {
  const wanted = [...desired].flatMap(([robot_id, { apps }]) =>
    Object.values(apps).flatMap(({ release }) => (release?.image == null ? [] : [{ robot_id, release, host: registryOf(release.image) }])),
  );
  if (wanted.length === 0) return;
  const own = db.forOrg(org_id);
  try {
    const robot_ids = [...new Set(wanted.map(({ robot_id }) => robot_id))];
    const unapproved = new Set((await listUnapproved(own, org_id, robot_ids)).map(({ id }) => id));
    const approved = robot_ids.filter((id) => !unapproved.has(id));
    if (approved.length === 0) return;
    const logins = await registryLogins(own, { secrets }, org_id, approved);
    for (const { robot_id, release, host } of wanted) {
      const login = logins.get(robot_id)?.get(host);
      if (login !== undefined) release.registry_auth = login;
    }
  } catch (error) {
    log.error({ err: error, org_id }, "robots are told of their images without the logins of registries");
  }
}

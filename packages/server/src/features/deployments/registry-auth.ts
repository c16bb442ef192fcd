import type { Desired } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { listUnapproved } from "./store/approval.ts";
import { registryLogins } from "../configs/index.ts";

const DOCKER_HUB = "docker.io";

/** Returns the registry of an image, by Docker's rules: without a host it is Docker Hub. */
export function registryOf(image: string): string {
  const [first = "", ...rest] = image.split("/");
  const is_host = rest.length > 0 && (/[.:]/.test(first) || first === "localhost");
  return is_host ? first.toLowerCase() : DOCKER_HUB;
}

/**
 * Adds registry logins for the images that robots are to run to their desired state. Logins are in the message only and never stored. A
 * robot gets only the logins that it needs, and none before it is approved. If logins cannot be read, the robot pulls without them.
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
    log.error({ err: error, org_id }, "could not read registry logins; robots pull images without them");
  }
}

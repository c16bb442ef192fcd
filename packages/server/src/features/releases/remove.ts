import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, notFound, printable } from "../../kernel/fault.ts";
import { releaseInUse } from "../deployments/index.ts";
import { announce } from "../events/index.ts";
import { findFleetWith } from "../fleets/index.ts";
import { deleteRelease, lockRelease, noteUnreferenced, type ReleaseRow } from "./store.ts";

/** Deletes a release that is not in use. Its artifact is deleted a day later, unless another release names it. */
export const removeRelease = (plane: Pick<Plane, "clock" | "bus">, db: Db, { org_id }: Caller, id: string): Promise<ReleaseRow> =>
  db.transaction(async (tx) => {
    const release = await lockRelease(tx, org_id, id);
    if (release === undefined) throw notFound("release", id);
    if (await releaseInUse(tx, org_id, id)) {
      throw conflict(
        `release ${printable(release.tag)} is in use: a robot runs it, is to run it or keeps it for a rollback, or a deployment of it is open`,
      );
    }
    // After the check above: a deployment that ended in between has updated its fleet by now.
    const fleet = await findFleetWith(tx, org_id, id);
    if (fleet !== undefined) {
      throw conflict(
        `release ${printable(release.tag)} is in use: robots that join fleet ${printable(fleet.name)} (${fleet.id}) get it; deploy another release to the fleet first`,
      );
    }
    await deleteRelease(tx, org_id, id);
    announce(tx, plane, org_id, { kind: "release", id, change: "removed" });
    await noteUnreferenced(tx, org_id, release.artifact_sha256, plane.clock.now());
    return release;
  });

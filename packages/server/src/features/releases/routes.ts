import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, Fault, found, notFound, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { imagesOf, mayFetchArtifact, releaseInUse } from "../deployments/index.ts";
import { announce } from "../events/index.ts";
import { findFleetWith } from "../fleets/index.ts";
import { createRelease } from "./create.ts";
import { answerArtifact, mapStoreOutage } from "./download.ts";
import { resumableUploads, speaksTus, tus } from "./resumable.ts";
import {
  deleteRelease,
  findArtifact,
  findLayer,
  findRelease,
  listReleases,
  lockRelease,
  noteUnreferenced,
  type ReleaseRow,
} from "./store.ts";
import { receiveArtifact } from "./upload.ts";
import { wireTimes } from "../../kernel/time.ts";

export function releaseRoutes(http: Http, plane: Plane): void {
  const uploads = resumableUploads(plane);

  serve(http, plane, routes.listReleases, async (_, { query, caller, db }) =>
    readPage(query, [routes.listReleases.name, caller.org_id], (window) => listReleases(db, caller.org_id, query, window), wireTimes),
  );

  serve(http, plane, routes.createRelease, async (_, { body, caller, db }) => {
    const { release, is_new } = await createRelease(plane, db, caller, body);
    const data = wireTimes(release);
    return is_new ? created("/api/releases", { data }) : { data };
  });

  serve(http, plane, routes.getRelease, async (_, { params, caller, db }) => {
    const release = await requireRelease(db, caller.org_id, params.id);
    const images = (await imagesOf(db, caller.org_id, [release.artifact_sha256])).get(release.artifact_sha256);
    return { data: { ...wireTimes(release), ...(release.kind === "container_image" && images !== undefined ? { images } : {}) } };
  });

  serve(http, plane, routes.deleteRelease, async (_, { params, caller, db }) => ({
    data: wireTimes(await removeRelease(plane, db, caller, params.id)),
  }));

  serve(http, plane, routes.putReleaseArtifact, async (_, { params, caller, headers, stream, allowBody }) => ({
    data: wireTimes(
      await mapStoreOutage(() => receiveArtifact(plane, uploads.admission, { caller, release_id: params.id, headers, stream, allowBody })),
    ),
  }));

  serve(http, plane, routes.startUpload, (_, { params, caller, headers, db, audit }) =>
    tus(headers, () => mapStoreOutage(() => uploads.start(db, caller.org_id, params.id, headers, audit))),
  );

  serve(http, plane, routes.continueUpload, (_, { params, caller: { org_id }, headers, stream, allowBody, audit }) =>
    tus(headers, () => mapStoreOutage(() => uploads.continue({ org_id, release_id: params.id, headers, stream, allowBody, audit }))),
  );

  serve(http, plane, routes.endUpload, (_, { params, caller, headers, db }) =>
    tus(headers, () => mapStoreOutage(() => uploads.end(db, caller.org_id, params.id))),
  );

  serve(http, plane, routes.getReleaseArtifact, async (_, { params, caller, headers, db, audit }) => {
    // In the tus protocol for resumable uploads, HEAD asks for the offset of the upload.
    if (speaksTus(headers)) return await tus(headers, () => mapStoreOutage(() => uploads.readOffset(caller.org_id, params.id, audit)));
    const { tag, image, artifact_state, artifact_sha256: sha256, artifact_size: size } = await requireRelease(db, caller.org_id, params.id);
    if (artifact_state === "external")
      throw new Fault("not_found", `release ${printable(tag)} has no artifact on this server: it is the image ${image}`);
    if (artifact_state !== "stored") throw notFound("artifact of release", tag);
    return await mapStoreOutage(() => answerArtifact(plane, { org_id: caller.org_id, sha256, size, headers }));
  });

  serve(http, plane, routes.getAgentArtifact, async (_, { params: { sha256 }, caller: { org_id, robot_id }, headers, db }) => {
    // Throw 404 even if the artifact exists: a robot without permission must not find out whether it exists.
    if (!(await mayFetchArtifact(db, org_id, robot_id, sha256))) throw notFound("artifact", sha256);
    const artifact = await findArtifact(db, org_id, sha256);
    if (artifact !== undefined) return await mapStoreOutage(() => answerArtifact(plane, { org_id, sha256, size: artifact.size, headers }));
    const part = found(await findLayer(db, org_id, sha256), "artifact", sha256);
    return await mapStoreOutage(() => answerArtifact(plane, { org_id, sha256, size: part.size, within: part, headers }));
  });
}

const requireRelease = async (db: Db, org_id: string, id: string): Promise<ReleaseRow> =>
  found(await findRelease(db, org_id, id), "release", id);

/** Deletes a release that is not in use. Its artifact is deleted a day later, unless another release refers to it. */
const removeRelease = (plane: Pick<Plane, "clock" | "bus">, db: Db, { org_id }: Caller, id: string): Promise<ReleaseRow> =>
  db.transaction(async (tx) => {
    const release = found(await lockRelease(tx, org_id, id), "release", id);
    if (await releaseInUse(tx, org_id, id)) {
      throw conflict(
        `release ${printable(release.tag)} is in use: a robot runs it, will run it or keeps it for a rollback, or a deployment of it has not ended`,
      );
    }
    // Check fleets after checking deployments. A deployment that ends between the two checks has already updated its fleet, so the second
    // check finds the release there.
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

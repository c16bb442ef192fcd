import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { Fault, notFound, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { imagesOf, mayFetchArtifact } from "../deployments/index.ts";
import { createRelease } from "./create.ts";
import { answerArtifact } from "./download.ts";
import { removeRelease } from "./remove.ts";
import { orStoreAway } from "./store-away.ts";
import { findLayer } from "./store-layers.ts";
import { findArtifact, findRelease, listReleases, type ReleaseRow } from "./store.ts";
import { resumableUploads } from "./resumable.ts";
import { speaksTus, tus } from "./tus.ts";
import { receiveArtifact } from "./upload.ts";
import { toWire } from "./wire.ts";

export function releaseRoutes(http: Http, plane: Plane): void {
  const uploads = resumableUploads(plane);

  serve(http, plane, routes.listReleases, async (_, { query, caller, db }) =>
    readPage(
      query,
      [routes.listReleases.name, caller.org_id],
      (window) => listReleases(db, caller.org_id, query, window),
      ({ id }) => id,
      toWire,
    ),
  );

  serve(http, plane, routes.createRelease, async (_, { body, caller, db }) => {
    const { release, is_new } = await createRelease(plane, db, caller, body);
    const data = toWire(release);
    return is_new ? created("/api/releases", { data }) : { data };
  });

  serve(http, plane, routes.getRelease, async (_, { params, caller, db }) => {
    const release = await requireRelease(db, caller.org_id, params.id);
    const images = (await imagesOf(db, caller.org_id, [release.artifact_sha256])).get(release.artifact_sha256);
    return { data: { ...toWire(release), ...(release.kind === "container_image" && images !== undefined ? { images } : {}) } };
  });

  serve(http, plane, routes.deleteRelease, async (_, { params, caller, db }) => ({
    data: toWire(await removeRelease(plane, db, caller, params.id)),
  }));

  serve(http, plane, routes.putReleaseArtifact, async (_, { params, caller, headers, stream, allowBody }) => ({
    data: toWire(
      await orStoreAway(() => receiveArtifact(plane, uploads.room, { caller, release_id: params.id, headers, stream, allowBody })),
    ),
  }));

  serve(http, plane, routes.startUpload, (_, { params, caller, headers, db, audit }) =>
    tus(headers, () => orStoreAway(() => uploads.start(db, caller.org_id, params.id, headers, audit))),
  );

  serve(http, plane, routes.continueUpload, (_, { params, caller: { org_id }, headers, stream, allowBody, audit }) =>
    tus(headers, () => orStoreAway(() => uploads.continue({ org_id, release_id: params.id, headers, stream, allowBody, audit }))),
  );

  serve(http, plane, routes.endUpload, (_, { params, caller, headers, db }) =>
    tus(headers, () => orStoreAway(() => uploads.end(db, caller.org_id, params.id))),
  );

  serve(http, plane, routes.getReleaseArtifact, async (_, { params, caller, headers, db, audit }) => {
    // In the tus protocol, HEAD asks for the offset of an upload.
    if (speaksTus(headers)) return await tus(headers, () => orStoreAway(() => uploads.look(caller.org_id, params.id, audit)));
    const { tag, image, artifact_state, artifact_sha256: sha256, artifact_size: size } = await requireRelease(db, caller.org_id, params.id);
    if (artifact_state === "external")
      throw new Fault("not_found", `release ${printable(tag)} has no artifact on this server: it is the image ${image}`);
    if (artifact_state !== "stored") throw notFound("artifact of release", tag);
    return await orStoreAway(() => answerArtifact(plane, { org_id: caller.org_id, sha256, size, headers }));
  });

  serve(http, plane, routes.getAgentArtifact, async (_, { params: { sha256 }, caller: { org_id, robot_id }, headers, db }) => {
    // 404, whether or not the artifact exists: a robot without permission must not learn that.
    if (!(await mayFetchArtifact(db, org_id, robot_id, sha256))) throw notFound("artifact", sha256);
    const artifact = await findArtifact(db, org_id, sha256);
    if (artifact !== undefined) return await orStoreAway(() => answerArtifact(plane, { org_id, sha256, size: artifact.size, headers }));
    const part = await findLayer(db, org_id, sha256);
    if (part === undefined) throw notFound("artifact", sha256);
    return await orStoreAway(() => answerArtifact(plane, { org_id, sha256, size: part.size, within: part, headers }));
  });
}

async function requireRelease(db: Db, org_id: string, id: string): Promise<ReleaseRow> {
  const release = await findRelease(db, org_id, id);
  if (release === undefined) throw notFound("release", id);
  return release;
}

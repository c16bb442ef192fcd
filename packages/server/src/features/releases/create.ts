import { AGENT_APP, ID_PREFIXES } from "@roamfleet/protocol";
import { APPS_MAX } from "@roamfleet/protocol/link";
import type { BodyOf, Routes } from "@roamfleet/protocol/routes";
import { isDeepStrictEqual } from "node:util";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, printable } from "../../kernel/fault.ts";
import { announce } from "../events/index.ts";
import { requireSignatureOf } from "../signing/index.ts";
import { checkContainerManifest } from "./container-manifest.ts";
import { findReleaseByTag, mayAddApp, insertRelease, noteReferenced, type ReleaseRow, setSignature } from "./store.ts";

const APP_DEFAULT = "main";
const KIND_DEFAULT = "container_image";
const AGENT_KIND = "agent";
const ATTEMPTS_MAX = 3;
/** Maximum size of a manifest. It is limited because one message contains the whole desired state of a robot, with all its manifests. */
const MANIFEST_BYTES_MAX = 64 * 1024;

type Body = BodyOf<Routes["createRelease"]>;

/**
 * Creates a release. If a release with this tag and the same content exists, returns that release, so that a client can repeat an
 * interrupted push.
 */
export async function createRelease(
  plane: Pick<Plane, "clock" | "id" | "bus">,
  db: Db,
  { org_id, actor }: Caller,
  body: Body,
): Promise<{ release: ReleaseRow; is_new: boolean }> {
  const {
    tag,
    artifact_sha256,
    artifact_size,
    notes = null,
    kind = KIND_DEFAULT,
    app = kind === AGENT_KIND ? AGENT_APP : APP_DEFAULT,
    image = null,
    manifest,
    signature,
  } = body;
  if (image !== null && kind !== KIND_DEFAULT)
    throw badRequest(`field image is allowed for the kind ${KIND_DEFAULT} only, not for ${kind}`);
  const manifest_bytes = manifest === undefined ? 0 : Buffer.byteLength(JSON.stringify(manifest));
  if (manifest_bytes > MANIFEST_BYTES_MAX)
    throw badRequest(`field manifest has ${manifest_bytes} bytes; at most ${MANIFEST_BYTES_MAX} are allowed`);
  if (kind === AGENT_KIND || app === AGENT_APP) checkAgentRelease({ app, kind, manifest });
  if (kind === KIND_DEFAULT && manifest !== undefined) checkContainerManifest(manifest);
  if (signature !== undefined) await requireSignatureOf(plane, db, org_id, { ...body, app, kind, image, manifest: manifest ?? null });
  if (!(await mayAddApp(db, org_id, app, APPS_MAX)))
    throw conflict(`the releases of this org already have ${APPS_MAX} apps, the maximum; app ${app} cannot be added`);
  const artifact_state = image === null ? "awaiting_upload" : "external";
  const wanted = {
    id: plane.id(ID_PREFIXES.release),
    tag,
    app,
    notes,
    kind,
    artifact_sha256,
    artifact_size,
    artifact_state,
    image,
    manifest,
    signature,
    created_by: actor,
  } as const;
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
    const made = await insertRelease(db, org_id, wanted, plane.clock.now());
    if (made !== undefined) {
      await noteReferenced(db, org_id, artifact_sha256);
      announce(db, plane, org_id, { kind: "release", id: made.id, change: "created" });
      return { release: made, is_new: true };
    }
    const existing = await findReleaseByTag(db, org_id, tag);
    if (existing !== undefined) {
      const same = requireSame(existing, body, { app, kind });
      const is_signed = signature === undefined || isDeepStrictEqual(signature, same.signature);
      if (is_signed) return { release: same, is_new: false };
      const release = await setSignature(db, org_id, same.id, signature, plane.clock.now());
      announce(db, plane, org_id, { kind: "release", id: release.id, change: "updated" });
      return { release, is_new: false };
    }
    // At the insert, a release had the tag, but it was deleted before it could be read. Insert again.
  }
  throw conflict(`release ${printable(tag)} is being created and deleted by other requests; try again`);
}

/** The version of an agent is the name of a directory on robots. */
const AGENT_VERSION = /^\d[0-9A-Za-z.+~-]{0,63}$/;
const AGENT_ARCH = /^[a-z0-9]{1,20}$/;

/**
 * Throws 400 unless this is a release of kind `agent` of the app `roamfleet-agent`, with a manifest that names its version and
 * architecture. A robot has one agent, so the kind has one app, and no other kind has that app.
 */
function checkAgentRelease({ app, kind, manifest }: { app: string; kind: string; manifest: unknown }): void {
  if (kind !== AGENT_KIND) throw badRequest(`the app ${AGENT_APP} is reserved for releases of kind ${AGENT_KIND}, not for ${kind}`);
  if (app !== AGENT_APP) throw badRequest(`releases of kind ${AGENT_KIND} belong to the app ${AGENT_APP}, not to ${printable(app)}`);
  const { version, arch } = (manifest ?? {}) as { version?: unknown; arch?: unknown };
  if (typeof version === "string" && AGENT_VERSION.test(version) && typeof arch === "string" && AGENT_ARCH.test(arch)) return;
  throw badRequest(
    `field manifest of a release of kind ${AGENT_KIND} needs the version and the architecture of the agent, such as {"version": "1.2.3", "arch": "amd64"}; \`rf agents upgrade\` creates such releases`,
  );
}

/**
 * Throws 409 if the existing release with this tag differs from the requested one. Ignores the notes, because they do not affect what runs.
 */
function requireSame(existing: ReleaseRow, body: Body, { app, kind }: { app: string; kind: string }): ReleaseRow {
  const wanted = { app, kind, artifact_sha256: body.artifact_sha256, artifact_size: body.artifact_size };
  const differences = (Object.keys(wanted) as (keyof typeof wanted)[])
    .filter((field) => existing[field] !== wanted[field])
    .map((field) => `${field} is ${existing[field]}, not ${wanted[field]}`);
  if (body.image !== undefined && body.image !== existing.image)
    differences.push(`image is ${existing.image ?? "none"}, not ${body.image}`);
  if (body.manifest !== undefined && !isDeepStrictEqual(body.manifest, existing.manifest)) differences.push("manifest is different");
  if (differences.length > 0)
    throw conflict(`release ${printable(existing.tag)} exists with other content: its ${differences.join("; ")}. Choose another tag`);
  return existing;
}

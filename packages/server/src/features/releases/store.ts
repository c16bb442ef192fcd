import type { Image } from "@roamfleet/protocol/image-archive";
import type { Actor } from "@roamfleet/protocol/routes";
import type { SignedText } from "@roamfleet/protocol/signatures";
import { MAX_ID, containing, type Window } from "../../kernel/page.ts";
import type { Db } from "../../kernel/db.ts";
import { bigint, bool, equals, json, jsonb, list, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

const releaseRow = row({
  id: text,
  tag: text,
  app: text,
  notes: nullable(text),
  kind: text,
  artifact_sha256: text,
  artifact_size: bigint,
  artifact_state: textOf<"awaiting_upload" | "stored" | "external">(),
  image: nullable(text),
  manifest: nullable(jsonb<Record<string, unknown>>()),
  signature: nullable(jsonb<unknown>()),
  created_by: nullable(jsonb<Actor>()),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type ReleaseRow = RowOf<typeof releaseRow>;

type NewRelease = Omit<ReleaseRow, "created_at" | "updated_at" | "signature" | "manifest"> & {
  signature: SignedText | undefined;
  manifest: Record<string, unknown> | undefined;
};

/** Inserts a release. Returns undefined if the org already has a release with this tag. */
export const insertRelease = (db: Db, org_id: string, r: NewRelease, now: Date): Promise<ReleaseRow | undefined> =>
  db.maybe(sql(releaseRow)`
    insert into release (org_id, id, tag, app, notes, kind, artifact_sha256, artifact_size, artifact_state, image, manifest, signature, created_by, created_at, updated_at)
    values (${org_id}, ${r.id}, ${r.tag}, ${r.app}, ${r.notes}, ${r.kind}, ${r.artifact_sha256}, ${r.artifact_size}, ${r.artifact_state}, ${r.image},
      ${json(r.manifest)}, ${json(r.signature)}, ${json(r.created_by ?? undefined)}, ${now}, ${now})
    on conflict (org_id, tag) do nothing
    returning ${releaseRow}`);

/** Whether a new release may be for this app: the org already has a release of the app, or it has fewer than `apps_max` apps. */
export const mayAddApp = async (db: Db, org_id: string, app: string, apps_max: number): Promise<boolean> =>
  (
    await db.one(sql(row({ has_room: bool }))`
      select exists (select from release where org_id = ${org_id} and app = ${app})
        or (select count(distinct app) from release where org_id = ${org_id}) < ${apps_max} as has_room`)
  ).has_room;

export const findRelease = (db: Db, org_id: string, id: string): Promise<ReleaseRow | undefined> =>
  db.maybe(sql(releaseRow)`select ${releaseRow} from release where org_id = ${org_id} and id = ${id}`);

export const findReleaseByTag = (db: Db, org_id: string, tag: string): Promise<ReleaseRow | undefined> =>
  db.maybe(sql(releaseRow)`select ${releaseRow} from release where org_id = ${org_id} and tag = ${tag}`);

/** Locks a release, so that no other transaction deploys, uploads or deletes it. Waits for transactions that create a deployment of it. */
export const lockRelease = (db: Db, org_id: string, id: string): Promise<ReleaseRow | undefined> =>
  db.maybe(sql(releaseRow)`select ${releaseRow} from release where org_id = ${org_id} and id = ${id} for update`);

interface ReleaseFilter {
  tag?: string | undefined;
  app?: string | undefined;
  kind?: string | undefined;
  q?: string | undefined;
}

export const listReleases = (db: Db, org_id: string, f: ReleaseFilter, { after, limit }: Window): Promise<ReleaseRow[]> =>
  db.many(sql(releaseRow)`
    select ${releaseRow} from release where org_id = ${org_id} and id < ${after ?? MAX_ID}
      ${equals({ tag: f.tag, app: f.app, kind: f.kind })}
      ${f.q === undefined ? sql`` : sql`and tag ~ ${containing(f.q)}`}
    order by id desc limit ${limit}`);

export const setStored = (db: Db, org_id: string, id: string, now: Date): Promise<ReleaseRow> =>
  db.one(sql(releaseRow)`
    update release set artifact_state = 'stored', updated_at = ${now} where org_id = ${org_id} and id = ${id} returning ${releaseRow}`);

/** Replaces the signature of a release, for example with one that expires later or is of another key. */
export const setSignature = (db: Db, org_id: string, id: string, signature: SignedText, now: Date): Promise<ReleaseRow> =>
  db.one(sql(releaseRow)`
    update release set signature = ${json(signature)}, updated_at = ${now} where org_id = ${org_id} and id = ${id} returning ${releaseRow}`);

export const deleteRelease = (db: Db, org_id: string, id: string): Promise<number> =>
  db.run(sql`delete from release where org_id = ${org_id} and id = ${id}`);

const artifactRow = row({ size: bigint, unreferenced_at: nullable(timestamptz) });

export const findArtifact = (db: Db, org_id: string, sha256: string): Promise<RowOf<typeof artifactRow> | undefined> =>
  db.maybe(sql(artifactRow)`select ${artifactRow} from artifact where org_id = ${org_id} and sha256 = ${sha256}`);

/**
 * Locks an artifact. Until the transaction ends, no other transaction can create or remove its blob, or change whether a release refers to
 * it.
 */
export const lockArtifact = (db: Db, org_id: string, sha256: string): Promise<RowOf<typeof artifactRow> | undefined> =>
  db.maybe(sql(artifactRow)`select ${artifactRow} from artifact where org_id = ${org_id} and sha256 = ${sha256} for update`);

/**
 * Records that an artifact is stored and that a release refers to it. The blob must exist when this transaction is committed. Locks the
 * artifact like `lockArtifact`.
 */
export const putArtifactRow = (db: Db, org_id: string, sha256: string, size: number, now: Date): Promise<number> =>
  db.run(sql`
    insert into artifact (org_id, sha256, size, stored_at) values (${org_id}, ${sha256}, ${size}, ${now})
    on conflict (org_id, sha256) do update set stored_at = excluded.stored_at, unreferenced_at = null`);

/** Records that a release refers to the artifact again, so that the artifact is not removed. */
export const noteReferenced = (db: Db, org_id: string, sha256: string): Promise<number> =>
  db.run(sql`update artifact set unreferenced_at = null where org_id = ${org_id} and sha256 = ${sha256} and unreferenced_at is not null`);

const namedRow = row({ named: bool });
/** Records that an artifact is unreferenced, unless a release refers to it. Unreferenced artifacts are removed later. */
export async function noteUnreferenced(db: Db, org_id: string, sha256: string, now: Date): Promise<void> {
  if ((await lockArtifact(db, org_id, sha256)) === undefined) return;
  const { named } = await db.one(
    sql(namedRow)`select exists (select 1 from release where org_id = ${org_id} and artifact_sha256 = ${sha256}) as named`,
  );
  if (!named)
    await db.run(
      sql`update artifact set unreferenced_at = ${now} where org_id = ${org_id} and sha256 = ${sha256} and unreferenced_at is null`,
    );
}

const keyRow = row({ org_id: text, sha256: text });
export type ArtifactKey = RowOf<typeof keyRow>;

/** Returns artifacts of all orgs that have been unreferenced since `before` or longer, after the key `after`. */
export const listUnreferenced = (db: Db, before: Date, after: ArtifactKey, limit: number): Promise<ArtifactKey[]> =>
  db.many(sql(keyRow)`
    select org_id, sha256 from artifact where unreferenced_at <= ${before} and (org_id, sha256) > (${after.org_id}, ${after.sha256})
    order by org_id, sha256 limit ${limit}`);

export const deleteArtifactRow = (db: Db, { org_id, sha256 }: ArtifactKey): Promise<number> =>
  db.run(sql`delete from artifact where org_id = ${org_id} and sha256 = ${sha256}`);

/**
 * Inserts a row for a blob that has none, and records it as unreferenced. Such a blob is left over when an upload fails between storing the
 * blob and committing its row.
 */
export const adoptArtifact = (db: Db, { org_id, sha256 }: ArtifactKey, size: number, now: Date): Promise<number> =>
  db.run(sql`
    insert into artifact (org_id, sha256, size, stored_at, unreferenced_at)
    -- reads tables of other features: org
    select id, ${sha256}, ${size}, ${now}, ${now} from org where id = ${org_id}
    on conflict (org_id, sha256) do nothing`);

/** Inserts the images in an artifact. Keeps rows that exist, because the images depend only on the artifact's digest. */
export function insertImages(db: Db, org_id: string, artifact_sha256: string, images: readonly Image[]): Promise<number> {
  const parts = images.flatMap(({ platform, config, layers }) =>
    [{ ...config, diff_id: null }, ...layers].map((part, position) => ({ ...part, platform, position })),
  );
  return db.run(sql`
    insert into artifact_layer (org_id, artifact_sha256, platform, position, sha256, size, start, diff_id)
    select ${org_id}, ${artifact_sha256}, p.platform, p.position, p.sha256, p.size, p.start, p.diff_id
    from unnest(${list(parts.map((p) => p.platform))}::text[], ${list(parts.map((p) => p.position))}::int[], ${list(parts.map((p) => p.sha256))}::text[],
      ${list(parts.map((p) => p.size))}::bigint[], ${list(parts.map((p) => p.start))}::bigint[], ${list(parts.map((p) => p.diff_id))}::text[])
      as p (platform, position, sha256, size, start, diff_id)
    on conflict (org_id, artifact_sha256, platform, position) do nothing`);
}

export const isImage = async (db: Db, org_id: string, artifact_sha256: string): Promise<boolean> =>
  (await db.maybe(sql(row({ artifact_sha256: text }))`
    select artifact_sha256 from artifact_layer where org_id = ${org_id} and artifact_sha256 = ${artifact_sha256} limit 1`)) !== undefined;

const placeRow = row({ artifact_sha256: text, start: bigint, size: bigint });
type LayerPlace = RowOf<typeof placeRow>;

/** Finds an artifact that contains the image layer with this digest. Prefers an artifact that a release refers to. */
export const findLayer = (db: Db, org_id: string, sha256: string): Promise<LayerPlace | undefined> =>
  db.maybe(sql(placeRow)`
    select l.artifact_sha256, l.start, l.size
    from artifact_layer l join artifact a on a.org_id = l.org_id and a.sha256 = l.artifact_sha256
    where l.org_id = ${org_id} and l.sha256 = ${sha256}
    order by a.unreferenced_at is not null, l.artifact_sha256 limit 1`);

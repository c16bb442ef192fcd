import type { Image } from "@roamfleet/protocol/image-archive";
import type { Db } from "../../kernel/db.ts";
import { bigint, list, row, type RowOf, sql, text } from "../../kernel/sql.ts";

/** Inserts the images of an artifact. They depend only on its digest, so rows that exist are the same. */
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
export type LayerPlace = RowOf<typeof placeRow>;

/** Finds an artifact that contains these bytes; prefers one that is not about to be removed. */
export const findLayer = (db: Db, org_id: string, sha256: string): Promise<LayerPlace | undefined> =>
  db.maybe(sql(placeRow)`
    select l.artifact_sha256, l.start, l.size
    from artifact_layer l join artifact a on a.org_id = l.org_id and a.sha256 = l.artifact_sha256
    where l.org_id = ${org_id} and l.sha256 = ${sha256}
    order by a.unreferenced_at is not null, l.artifact_sha256 limit 1`);

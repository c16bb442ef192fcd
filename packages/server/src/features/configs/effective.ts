import { hash } from "node:crypto";
import type { Db } from "../../kernel/db.ts";
import { type EffectiveRow, listEffective } from "./store.ts";

export interface ConfigFile {
  /** JSON with the keys in order: the same values are the same bytes. */
  content: string;
  sha256: string;
}

/** The values that count for one robot, with where each comes from. */
export const effectiveConfig = (db: Db, org_id: string, robot_id: string, namespace: string | null): Promise<EffectiveRow[]> => listEffective(db, org_id, [robot_id], namespace);

/** The files that robots are to have by the values as they are now: by robot, then namespace. */
export async function effectiveFiles(db: Db, org_id: string, robot_ids: readonly string[], namespace: string | null): Promise<Map<string, Map<string, ConfigFile>>> {
  const rows = await listEffective(db, org_id, robot_ids, namespace);
  const files = new Map<string, Map<string, ConfigFile>>();
  for (const [robot_id, own] of Map.groupBy(rows, (row) => row.robot_id)) {
    const by_namespace = Map.groupBy(own, (row) => row.namespace);
    files.set(robot_id, new Map([...by_namespace].map(([name, values]) => [name, fileOf(values)])));
  }
  return files;
}

function fileOf(values: readonly EffectiveRow[]): ConfigFile {
  const sorted = values.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  const content = `${JSON.stringify(Object.fromEntries(sorted.map(({ key, value }) => [key, value])), null, 2)}\n`;
  return { content, sha256: hash("sha256", content) };
}

import type { Db } from "../../kernel/db.ts";
import { sql, type Statement } from "../../kernel/sql.ts";

interface PlanNode {
  "Relation Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Join Filter"?: number;
  Plans?: PlanNode[];
}
/** The result of EXPLAIN. A typed row cannot describe it, because its column name contains a space. */
type Explained = { "QUERY PLAN": { Plan: PlanNode; "Execution Time": number }[] };

/** Returns how many rows a plan reads from tables, including those that a filter removes. */
const touchedBy = (node: PlanNode): number =>
  (node["Relation Name"] === undefined ? 0 : (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"]) +
  (node.Plans ?? []).reduce((sum, child) => sum + touchedBy(child), 0);

/**
 * Runs the statements of `read`. Returns how many rows their plans read from tables, and how long the statements took. Each statement runs
 * twice, also one that changes rows.
 */
export async function explain(db: Db, read: (db: Db) => Promise<unknown>): Promise<{ rows: number; ms: number }> {
  let [rows, ms] = [0, 0];
  const measure = async (statement: Statement<unknown>): Promise<void> => {
    const answer = (await db.many(sql`explain (analyze, format json) ${statement}`)) as Explained[];
    const [explained] = answer[0]?.["QUERY PLAN"] ?? [];
    if (explained === undefined) throw new Error("EXPLAIN returned no plan");
    rows += touchedBy(explained.Plan);
    ms += explained["Execution Time"];
  };
  const many: Db["many"] = async (statement) => {
    await measure(statement);
    return await db.many(statement);
  };
  const run: Db["run"] = async (statement) => {
    await measure(statement);
    return await db.run(statement);
  };
  await read({ ...db, many, run });
  return { rows, ms };
}

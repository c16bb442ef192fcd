import type { SignedText } from "@roamfleet/protocol/signatures";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { int, json, jsonb, row, type RowOf, sql, timestamptz } from "../../kernel/sql.ts";

const statementRow = row({ serial: int, statement: jsonb<SignedText>(), created_at: timestamptz });
export type StatementRow = RowOf<typeof statementRow>;

/** Maximum statements in one response. Few orgs have more; a robot that lacks more statements requests the rest later. */
const STATEMENTS_MAX = 1_000;

/** Returns the statements with a serial number above `after`, oldest first. */
export const listStatements = (db: Db, org_id: string, after: number): Promise<StatementRow[]> =>
  db.many(sql(statementRow)`
    select ${statementRow} from signing_trust where org_id = ${org_id} and serial > ${after} order by serial limit ${STATEMENTS_MAX}`);

export const findLatest = (db: Db, org_id: string): Promise<StatementRow | undefined> =>
  db.maybe(sql(statementRow)`select ${statementRow} from signing_trust where org_id = ${org_id} order by serial desc limit 1`);

/** Inserts a statement. Fails if its serial exists, so only one of two concurrent changes succeeds. */
export const insertStatement = (
  db: Db,
  org_id: string,
  { serial, statement, created_by, created_at }: StatementRow & { created_by: Actor },
): Promise<number> =>
  db.run(sql`
    insert into signing_trust (org_id, serial, statement, created_by, created_at)
    values (${org_id}, ${serial}, ${json(statement)}, ${json(created_by)}, ${created_at})`);

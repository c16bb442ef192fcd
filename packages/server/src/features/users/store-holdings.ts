import type { UserHolding } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { nullable, row, sql, text, textOf } from "../../kernel/sql.ts";

/** Most holdings of each kind, newest first. */
const EACH_MAX = 100;

const holdingRow = row({
  kind: textOf<UserHolding["kind"]>(),
  id: text,
  label: nullable(text),
  status: text,
  outcome: textOf<UserHolding["outcome"]>(),
});

/** Returns what a removal of the user affects: open deployments on the user's authority, and valid enrollment keys and tokens. */
export const listHoldings = (db: Db, org_id: string, user_id: string, now: Date): Promise<UserHolding[]> =>
  db.many(sql(holdingRow)`
    -- reads: deployment, release, enrollment_key, credential
    (select case d.kind when 'release' then 'deployment' else 'config_deployment' end as kind, d.id, coalesce(r.tag, d.namespace) as label, d.status, 'cancelled' as outcome
      from deployment d left join release r on r.org_id = d.org_id and r.id = d.release_id
      where d.org_id = ${org_id} and d.finished_at is null
        and coalesce(d.authority ->> 'user_id', case when d.authority is null and d.created_by ->> 'type' = 'user' then d.created_by ->> 'id' end) = ${user_id}
      order by d.id desc limit ${EACH_MAX})
    union all
    (select 'enrollment_key', k.id, k.label, 'active', 'revoked' from enrollment_key k
      where k.org_id = ${org_id} and k.created_by ->> 'type' = 'user' and k.created_by ->> 'id' = ${user_id} and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > ${now}) and (k.max_uses = 0 or k.uses < k.max_uses)
      order by k.id desc limit ${EACH_MAX})
    union all
    (select 'token', c.id, c.label, 'active', case when c.user_id is null or c.every_org then 'kept' else 'revoked' end from credential c
      where c.org_id = ${org_id} and c.revoked_at is null and (c.expires_at is null or c.expires_at > ${now})
        and (c.user_id = ${user_id}
          or (c.user_id is null and c.created_by ->> 'type' = 'user' and c.created_by ->> 'id' = ${user_id}))
      order by c.id desc limit ${EACH_MAX})`);

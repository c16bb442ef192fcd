import type { Hello } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { jsonb, list, row, sql, text } from "../../kernel/sql.ts";

export interface NewPresence {
  session_id: string;
  hello: Hello;
  /** The key with which the hello was signed, if known. */
  public_key: Buffer | undefined;
}

const runsRow = row({ id: text, runs: jsonb<string[]>() });

/**
 * Makes these links their robots' presence; each robot at most once. Returns, by robot, the previous runs of its agent, newest first.
 * Robots that are decommissioned, quarantined or have another key are absent. Locks rows in the order of ids, so that transactions cannot
 * deadlock, and one by one, for the reason given at setOffline.
 */
export async function setOnline(
  db: Db,
  org_id: string,
  node: { id: string; epoch: number },
  comings: readonly NewPresence[],
  now: Date,
): Promise<Map<string, string[]>> {
  const texts = (of: (coming: NewPresence) => string | null) => list(comings.map(of));
  const rows = await db.many(sql(runsRow)`
    with before as (
      select r.id, r.runs, v.session_id, v.agent_version, v.platform, v.kinds, v.streams, v.run_id
      from (
        select * from unnest(${texts(({ hello }) => hello.robot_id)}::text[], ${texts(({ session_id }) => session_id)}::text[],
          ${texts(({ public_key }) => public_key?.toString("hex") ?? null)}::text[], ${texts(({ hello }) => hello.agent_version)}::text[],
          ${texts(({ hello }) => JSON.stringify(hello.platform))}::text[], ${texts(({ hello }) => JSON.stringify(hello.kinds))}::text[],
          ${texts(({ hello }) => JSON.stringify(hello.streams))}::text[], ${texts(({ hello }) => hello.run_id)}::text[])
          as v (id, session_id, public_key, agent_version, platform, kinds, streams, run_id)
        order by id) v
      cross join lateral (
        select id, runs, public_key, decommissioned_at, held_at from robot where org_id = ${org_id} and id = v.id for no key update) r
      where r.decommissioned_at is null and r.held_at is null and (v.public_key is null or r.public_key = decode(v.public_key, 'hex')))
    update robot r set node_id = ${node.id}, node_epoch = ${node.epoch}, session_id = before.session_id, connected_at = ${now}, last_seen_at = ${now},
      agent_version = before.agent_version, platform = before.platform::jsonb, kinds = before.kinds::jsonb, streams = before.streams::jsonb,
      runs = jsonb_path_query_array(jsonb_build_array(before.run_id) || (before.runs - before.run_id), '$[0 to 15]')
    from before where r.org_id = ${org_id} and r.id = before.id
    returning r.id, before.runs`);
  return new Map(rows.map(({ id, runs }) => [id, runs]));
}

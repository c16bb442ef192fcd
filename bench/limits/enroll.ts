/**
 * The limit of enrollment: a server with only node:http that enrolls each robot by one prepared statement. The statement counts a use of the
 * enrollment key, and inserts the same rows as our server. Permissions and public keys are not checked, and robots share no transactions.
 */
import { hash } from "node:crypto";
import { idSource, systemClock } from "@roamfleet/clock";
import { ID_PREFIXES } from "@roamfleet/protocol";
import { Pool } from "pg";
import { insertingKeys } from "../../packages/server/src/features/enrollment/store.ts";
import { insertingRobots } from "../../packages/server/src/features/robots/store.ts";
import { insertingEntries } from "../../packages/server/src/features/timeline/store.ts";
import { sql, type Statement } from "../../packages/server/src/kernel/sql.ts";
import { answer, answerError, listener } from "../listener.ts";

/** The enrollment key of the bench, and the org, site and fleet in which robots enroll with it. */
interface Place {
  org_id: string;
  site_id: string;
  fleet_id: string;
  key_id: string;
}

const pool = new Pool({ ...(JSON.parse(process.env.DATABASE ?? "{}") as Record<string, never>), max: 10 });
const place = JSON.parse(process.env.PLACE ?? "{}") as Place;
const newId = idSource(systemClock);

function enrolling(key: string, public_key: string): Statement<unknown> {
  const { org_id, site_id, fleet_id, key_id } = place;
  const at = new Date();
  const id = newId(ID_PREFIXES.robot);
  const robot = {
    id,
    name: id,
    site_id,
    fleet_id,
    labels: {},
    public_key: Buffer.from(public_key, "base64"),
    platform: undefined,
    approved: false,
  };
  const entry = {
    org_id,
    robot_id: id,
    id: newId(ID_PREFIXES.event),
    at,
    kind: "robot.enrolled",
    actor: { type: "robot" as const, id, name: null },
    summary: "The robot enrolled in fleet bench",
    data: { enrollment_key_id: key_id, label: null, approval: "pending", site_id, fleet_id },
  };
  return sql`
    with used as (
        update enrollment_key set uses = uses + 1, updated_at = ${at} where hash = ${hash("sha256", key, "buffer")} and revoked_at is null returning id),
      made as (${insertingRobots(org_id, key_id, [robot], at)}), keyed as (${insertingKeys(org_id, [robot], at)}),
      entered as (${insertingEntries([entry])})
    select ${id}::text as robot_id from used`;
}

listener((request, response) => {
  if (request.url === "/readyz") return answer(response, 200, {});
  let text = "";
  request.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  request.on("end", () => {
    const { key, public_key } = JSON.parse(text) as { key: string; public_key: string };
    const { text: statement, values } = enrolling(key, public_key);
    pool.query({ name: "enroll", text: statement, values: [...values] }).then(
      ({ rows: [row] }) => answer(response, row === undefined ? 401 : 201, { data: row as unknown }),
      (error: Error) => answerError(response, error),
    );
  });
});

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import type { JsonValue } from "@roamfleet/protocol";
import type { ConfigEntry } from "@roamfleet/protocol/routes";
import fc from "fast-check";
import { bigint, row, sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { configFile, effectiveFiles } from "./effective-files.ts";
import { configRoutes } from "./index.ts";
import { HISTORY_VERSIONS_MAX } from "./store.ts";

test("creates the same JSON bytes for the same values in any order", () => {
  const values: [string, JsonValue][] = [
    ["b", [1, { z: null, a: [] }, "ü\n"]],
    ["a", {}],
    ["10", true],
    ["9", "x"],
  ];
  const file = configFile(new Map(values));
  assert.equal(
    file.content,
    '{\n  "10": true,\n  "9": "x",\n  "a": {},\n  "b": [\n    1,\n    {\n      "a": [],\n      "z": null\n    },\n    "ü\\n"\n  ]\n}\n',
  );
  assert.deepEqual(JSON.parse(file.content), Object.fromEntries(values));
  assert.equal(file.sha256, createHash("sha256").update(Buffer.from(file.content)).digest("hex"));
  assert.deepEqual(configFile(new Map(values.toReversed())), file);
});

test("writes a key named __proto__ like any other key, and an empty object without values", () => {
  assert.equal(configFile(new Map([["__proto__", 1]])).content, '{\n  "__proto__": 1\n}\n');
  assert.equal(configFile(new Map()).content, "{}\n");
});

const KEYS = ["a", "b"];
const SCOPES = ["org", "fleet", "robot"] as const;

type Step = { key: string; scope: (typeof SCOPES)[number]; value: number | "secret" | "removed" } | "draw";

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    key: fc.constantFrom(...KEYS),
    scope: fc.constantFrom(...SCOPES),
    value: fc.oneof(fc.nat(3), fc.constant("removed" as const)),
  }),
  fc.record({
    key: fc.constant("password"),
    scope: fc.constantFrom(...SCOPES),
    value: fc.constantFrom("secret" as const, "removed" as const),
  }),
  fc.constant("draw" as const),
);

test("builds the files of the time when an order number was drawn", { timeout: 120_000 }, async () => {
  await using rig = await startFeaturePlane([configRoutes]);
  const { token, org_id } = await rig.org();
  const { robot_id, fleet_id } = await seedRobot(rig.plane, org_id);
  const other = (await seedRobot(rig.plane, org_id, { fleet_id })).robot_id;
  const scope_ids = { org: undefined, fleet: fleet_id, robot: robot_id };
  const digests = async (as_of: number | null): Promise<Record<string, string | undefined>> => {
    const files: Record<string, string | undefined> = {};
    for await (const part of effectiveFiles(rig.plane.db, rig.plane, org_id, { robot_ids: [robot_id, other], namespace: null, as_of }))
      for (const [id, own] of part) files[id] = own.files.get("default")?.sha256;
    return files;
  };
  const draw = async (): Promise<number> =>
    (await rig.plane.db.one(sql(row({ drawn: bigint }))`select nextval('order_number') as drawn`)).drawn;
  const seen: [order_number: number, files: Record<string, string | undefined>][] = [];
  const ids = new Map<string, string>();
  const take = async (one: Step): Promise<void> => {
    if (one === "draw") return void seen.push([await draw(), await digests(null)]);
    const { key, scope, value } = one;
    const place = `${scope} ${key}`;
    if (value === "removed") {
      const id = ids.get(place);
      if (id !== undefined) await rig.call("DELETE", `/api/configs/${id}`, { token });
      return;
    }
    const secret = value === "secret" ? { value: String(seen.length), secret: true } : { value };
    const body = { key, scope, scope_id: scope_ids[scope], ...secret };
    const answer = await rig.call<{ data: ConfigEntry }>("POST", "/api/configs", { token, body });
    ids.set(place, answer.body.data.id);
  };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      for (const one of [...steps, "draw" as const]) await take(one);
      for (const [as_of, files] of seen) assert.deepEqual(await digests(as_of), files);
    }),
    { numRuns: 12 },
  );
});

test("builds files with the oldest version of a value whose version of that time was deleted", { timeout: 120_000 }, async () => {
  await using rig = await startFeaturePlane([configRoutes]);
  const { token, org_id } = await rig.org();
  const { robot_id } = await seedRobot(rig.plane, org_id);
  const set = (value: number) => rig.call("POST", "/api/configs", { token, body: { key: "speed", value } });
  const filesOf = async (as_of: number) => {
    for await (const part of effectiveFiles(rig.plane.db, rig.plane, org_id, { robot_ids: [robot_id], namespace: null, as_of }))
      return part.get(robot_id)?.files.get("default")?.content;
    return undefined;
  };
  await set(1);
  const { drawn } = await rig.plane.db.one(sql(row({ drawn: bigint }))`select nextval('order_number') as drawn`);
  for (let value = 2; value <= HISTORY_VERSIONS_MAX; value += 1) await set(value);
  assert.deepEqual(JSON.parse((await filesOf(drawn)) ?? ""), { speed: 1 });
  await set(HISTORY_VERSIONS_MAX + 1);
  assert.deepEqual(JSON.parse((await filesOf(drawn)) ?? ""), { speed: 2 });
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseNatsUrl } from "../../packages/server/src/engines/bus/nats-address.ts";
import { startPlane } from "../harness/index.ts";
import { secondNode } from "../harness/second-node.ts";

const [KEY, OTHER_KEY] = ["11".repeat(32), "22".repeat(32)];
/** Settings with a bus mean that several servers share the database, whether or not the bus is reachable. */
const bus = parseNatsUrl("nats://127.0.0.1:1");

test("a second server refuses to start with a secrets key that decrypts no stored secret", { timeout: 300_000 }, async () => {
  await using first = await startPlane({ nodes: 1, settings: { bus, secrets_key: KEY } });
  // The database contains no encrypted value yet, so any key is accepted.
  await (await secondNode(first, { secrets_key: OTHER_KEY }))[Symbol.asyncDispose]();
  const fleet = await first.fleet();
  await first.api.setConfig({ body: { key: "password", secret: true, scope: "fleet", scope_id: fleet, value: "one" } });
  await assert.rejects(secondNode(first, { secrets_key: OTHER_KEY }), {
    message: /^the secrets key of this server decrypts none of the secrets in the database.*ROAMFLEET_SECRETS_KEY/,
  });
  // These settings are accepted: another key without a bus, the same key, and the same key in a list with another one.
  for (const settings of [{ secrets_key: OTHER_KEY, bus: undefined }, { secrets_key: KEY }, { secrets_key: `${OTHER_KEY},${KEY}` }])
    await (await secondNode(first, settings))[Symbol.asyncDispose]();
});

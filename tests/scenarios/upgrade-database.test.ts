import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { type Client, createClient } from "@roamfleet/sdk";
import { type Embedded, startEmbedded } from "../../packages/server/src/engines/db/embedded/index.ts";
import { migrate, MIGRATIONS_DIRECTORY } from "../../packages/server/src/engines/db/index.ts";
import { silentLog } from "../../packages/server/src/engines/db/testing/index.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { rowsOfAndStop } from "../processes/database-rows.ts";
import { runCommand, ServingData, startCommand } from "../processes/server-command.ts";

const OLD = 15;
const SYSTEM = "/usr/lib/postgresql";
const LIMIT = { timeout: 300_000, skip: existsSync(`${SYSTEM}/${OLD}/bin/postgres`) ? false : `PostgreSQL ${OLD} is not installed` };
/** Number of sites: enough rows to kill the upgrade during the copy. */
const SITES = 40;

let place = "";
let data = "";
let token = "";
let was: Record<string, string[]> = {};

before(async () => {
  place = mkdtempSync(path.join(tmpdir(), "roamfleet-upgrade-"));
  data = path.join(place, "data");
  if (LIMIT.skip !== false) return;
  mkdirSync(path.join(place, "system"));
  symlinkSync(path.join(SYSTEM, String(OLD)), path.join(place, "system", String(OLD)));
  const old = await startOld();
  await migrate(old.connection, { directory: MIGRATIONS_DIRECTORY, log: silentLog });
  await old.stop();
  await using server = new ServingData(data);
  const url = await server.url();
  const admin = createClient({ base_url: url });
  const { id } = (await admin.createOrg({ body: { name: "Old" } })).data;
  token = (await admin.approveOrg({ params: { id } })).data.token ?? "";
  const api = createClient({ base_url: url, token });
  for (let n = 0; n < SITES; n += 1) await api.createSite({ body: { name: `Site ${n} – Größe 😀` } });
  await pushBundle(api, "one", await appBundle());
}, LIMIT);

after(() => rmSync(place, { recursive: true, force: true }));

function startOld(): Promise<Embedded> {
  return startEmbedded({
    directory: path.join(data, "postgres"),
    clock: systemClock,
    log: silentLog,
    sources: { embedded: undefined, systemRoot: path.join(place, "system") },
  });
}

const versionOf = (directory: string): string => readFileSync(path.join(data, directory, "PG_VERSION"), "utf8").trim();

/** Asserts that the server runs on its data and accepts earlier tokens. */
async function serves(): Promise<Client> {
  await using server = new ServingData(data);
  const api = createClient({ base_url: await server.url(), token });
  assert.equal((await api.listSites({ query: { limit: 1000 } })).items.length, SITES);
  return api;
}

test("an interrupted upgrade-database leaves the old database intact, and the server runs on it", LIMIT, async () => {
  const program = startCommand(["upgrade-database", "--data", data]);
  await program.until("the new database to be made", () => existsSync(path.join(data, "postgres.upgrade", "postmaster.pid")));
  await program.kill();
  assert.equal(versionOf("postgres"), String(OLD));
  await serves();
  assert.equal(versionOf("postgres"), String(OLD));
});

test("upgrade-database moves every row to a newer PostgreSQL and keeps the old database", LIMIT, async () => {
  const old = await startOld();
  was = await rowsOfAndStop(old);
  assert.ok((was["public.site"]?.length ?? 0) === SITES);
  const { code, output } = await runCommand(["upgrade-database", "--data", data]);
  assert.equal(code, 0, output);
  const rows = Object.values(was).flat().length;
  assert.match(
    output,
    new RegExp(`PostgreSQL ${OLD} → \\d+: \\d+ tables, ${rows} rows; the old database is kept in .*postgres.${OLD}.old`),
  );
  assert.equal(versionOf(`postgres.${OLD}.old`), String(OLD));
  assert.notEqual(versionOf("postgres"), String(OLD));
  const started = await startEmbedded({ directory: path.join(data, "postgres"), clock: systemClock, log: silentLog });
  assert.deepEqual(await rowsOfAndStop(started), was);
  await serves();
});

test("a server refuses a database of an unavailable PostgreSQL version and names both solutions", LIMIT, async () => {
  const strange = path.join(place, "strange");
  mkdirSync(path.join(strange, "postgres"), { recursive: true, mode: 0o700 });
  writeFileSync(path.join(strange, "postgres", "PG_VERSION"), "12\n");
  const { code, output } = await runCommand(["serve", "--data", strange, "--listen", "127.0.0.1:0"]);
  assert.equal(code, 2, output);
  assert.match(
    output,
    /was created by PostgreSQL 12, which is not installed: install it \(apt-get install postgresql-12\).*roamfleet upgrade-database/,
  );
});

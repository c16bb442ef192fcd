import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import type { ServeFlags } from "../config.ts";
import { S3ForTests, s3Fault } from "../engines/blobs/testing/s3-server.ts";
import { NatsServer, SKIP_NATS } from "../engines/bus/testing/nats-server.ts";
import { migrate, MIGRATIONS_DIRECTORY } from "../engines/db/index.ts";
import { scratch, startOn } from "../engines/db/embedded/testing/scratch.ts";
import { createTestDatabase, silentLog, type TestDatabase } from "../engines/db/testing/index.ts";
import { command } from "../engines/db/testing/test-server.ts";
import { createLog } from "../kernel/log.ts";
import { openAuthority } from "../kernel/tls/certificate-authority.ts";
import { Lease } from "../link/index.ts";
import { CHECKS, examine, runCheck } from "./examine.ts";
import { nodesCheck } from "./checks/nodes.ts";
import type { Check, Finding } from "./finding.ts";
import { readAllSettings } from "./read-settings.ts";

const LIMIT = { timeout: 120_000 };
const WAIT_MS = 60_000;

async function temporary(t: TestContext): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-doctor-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Runs the named checks, or all. Without `flags.data`, uses an empty directory. Asserts that the checks leave no file in the directory. */
async function examined(t: TestContext, env: NodeJS.ProcessEnv, flags: ServeFlags = {}, ...names: string[]): Promise<Finding[]> {
  const data = flags.data ?? (await temporary(t));
  const before = await readdir(data).catch(() => []);
  const checks = CHECKS.filter(({ name }) => names.length === 0 || names.includes(name));
  const findings = await examine({
    env,
    flags: { data, listen: "127.0.0.1:0", ...flags },
    checks,
    clock: systemClock,
    timeout_ms: WAIT_MS,
  });
  assert.deepEqual(await readdir(data).catch(() => []), before);
  return findings;
}

/** Returns the problems and warnings of the given checks, as `CHECK STATUS: TEXT`. */
const unwell = (findings: readonly Finding[], ...checks: string[]): string[] =>
  findings
    .filter(({ check, status }) => checks.includes(check) && (status === "problem" || status === "warning"))
    .map(({ check, status, seen }) => `${check} ${status}: ${seen}`);

const problems = (findings: readonly Finding[]): string[] => findings.filter(({ status }) => status === "problem").map(({ seen }) => seen);

function urlOf({ connection: { host, port, user, database } }: Pick<TestDatabase, "connection">): string {
  return `postgres:///${database}?host=${encodeURIComponent(host)}&port=${port}&user=${user}`;
}

test("the doctor finds no problem with an empty directory and default settings, and leaves it empty", LIMIT, async (t) => {
  const findings = await examined(t, {});
  assert.deepEqual(problems(findings), []);
  assert.deepEqual(
    [...new Set(findings.map(({ check }) => check))],
    CHECKS.map(({ name }) => name),
  );
});

test("reports only the durability settings of a database that is otherwise healthy", LIMIT, async (t) => {
  await using database = await createTestDatabase();
  const findings = await examined(t, { DATABASE_URL: urlOf(database) });
  assert.deepEqual(
    problems(findings).map((seen) => seen.split(" ")[0]),
    ["fsync", "synchronous_commit", "full_page_writes"],
  );
  assert.ok(findings.some(({ check, status, seen }) => check === "migrations" && status === "ok" && seen === "up to date"));
});

test("accepts a database without tables, and reports one that belongs to a newer version", LIMIT, async (t) => {
  await using empty = await createTestDatabase({ empty: true });
  const fresh = await examined(t, { DATABASE_URL: urlOf(empty) }, {}, "migrations");
  assert.ok(fresh.some(({ check, status, seen }) => check === "migrations" && status === "ok" && /empty/.test(seen)));
  await using newer = await createTestDatabase();
  await command(newer.connection, "insert into schema_migration (name, run_on) values ('9999_later', now())", newer.connection.database);
  const found = await examined(t, { DATABASE_URL: urlOf(newer) }, {}, "migrations");
  assert.match(
    unwell(found, "migrations").join(),
    /^migrations problem: the database belongs to a newer version: it has migrations that this version lacks: 9999_later/,
  );
});

test("lists another server as live only if it renews its lease", LIMIT, async (t) => {
  await using database = await createTestDatabase();
  const db = await database.connect();
  const context = { db, clock: systemClock, log: createLog({ level: "silent" }) };
  await Lease.take(context, "node_silent");
  await Lease.take(context, "node_living");
  const flags = { data: await temporary(t), listen: "127.0.0.1:0" };
  // A few seconds suffice to observe a renewal; connecting to the database may take longer.
  const watchBriefly: Check["check"] = (context) => nodesCheck.check({ ...context, timeout_ms: 4_000 });
  const checks = [{ ...nodesCheck, check: watchBriefly }];
  let is_over = false;
  const examining = examine({ env: { DATABASE_URL: urlOf(database) }, flags, checks, clock: systemClock, timeout_ms: WAIT_MS });
  void examining.finally(() => (is_over = true));
  // Each call renews the lease.
  while (!is_over) await Lease.take(context, "node_living");
  const found = await examining;
  assert.equal(found[0]?.seen, "1 running: node_living", JSON.stringify(found));
  assert.match(
    unwell(found, "other servers").join("\n"),
    /problem: other servers use this database.*\n.*warning: artifacts are in this server's/,
  );
  assert.match(found.at(-1)?.seen ?? "", /node_silent$/);
});

test("reports a secrets key that does not decrypt the database's data keys", LIMIT, async (t) => {
  await using database = await createTestDatabase();
  await command(
    database.connection,
    `insert into org (id, name, status, created_at, updated_at) values ('org_1', 'one', 'active', now(), now());
     insert into secret_key (org_id, id, master_key_id, wrapped, created_at) values ('org_1', 'skey_1', 'anothers', 'bytes', now())`,
    database.connection.database,
  );
  const env = { DATABASE_URL: urlOf(database) };
  assert.match(
    unwell(await examined(t, env, {}, "secrets key"), "secrets key").join(),
    /problem: there is no secrets key, but the database contains the secrets of one data key/,
  );
  const ROAMFLEET_SECRETS_KEY = randomBytes(32).toString("hex");
  const found = await examined(t, { ...env, ROAMFLEET_SECRETS_KEY }, {}, "secrets key");
  assert.match(unwell(found, "secrets key").join(), /problem: the secrets of one data key cannot be decrypted/);
  assert.ok(!JSON.stringify(found).includes(ROAMFLEET_SECRETS_KEY));
});

test("accepts a durable database, and reports a wrong password, name or port without showing the password", LIMIT, async (t) => {
  await using place = await scratch();
  const hba_file = path.join(place.root, "hba.conf");
  await writeFile(hba_file, "local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n");
  // The default port, on a random loopback address that no other process uses.
  const host = `127.${randomBytes(3)
    .map((byte) => 1 + (byte % 250))
    .join(".")}`;
  const embedded = await startOn(place.database, { parameters: { listen_addresses: host, hba_file } });
  try {
    const { connection } = embedded;
    await command(connection, "create role fleet login password 'geh/eim'");
    await command(connection, "create database plant owner fleet");
    await migrate({ ...connection, user: "fleet", database: "plant" }, { directory: MIGRATIONS_DIRECTORY, log: silentLog });
    const at = (user: string, database = "plant", port = connection.port) => ({
      DATABASE_URL: `postgres://${user}@${host}:${port}/${database}`,
    });
    const healthy = await examined(t, at("fleet:geh%2Feim"));
    assert.deepEqual(problems(healthy), []);
    // Ignores the round trip, which depends on the load of this machine.
    const unhealthy = unwell(healthy, "database", "migrations", "secrets key").filter((line) => !line.includes(" away: "));
    assert.deepEqual(unhealthy, []);
    const looked = (user: string, ...more: [string?, number?]) => examined(t, at(user, ...more), {}, "database");
    const wrong = await looked("fleet:wr%2Fong");
    assert.match(unwell(wrong, "database").join(), /problem: .*plant: password authentication failed for user "fleet"/);
    assert.ok(!/geh|wr(%2F|\/)ong/.test(JSON.stringify([healthy, wrong])));
    assert.match(unwell(await looked("fleet:geh%2Feim", "factory"), "database").join(), /database "factory" does not exist/);
    assert.match(unwell(await looked("fleet:geh%2Feim", "plant", 1), "database").join(), /ECONNREFUSED/);
    // A role that does not own the database may neither create tables nor switch to the role for row-level security.
    await command(connection, "create role guest login password 'guest'");
    const guest = unwell(await looked("guest:guest"), "database");
    assert.equal(guest.filter((line) => /guest may not/.test(line)).length, 2, guest.join("\n"));

    // The same PostgreSQL, now examined as the embedded database of a running server.
    const findings = await examined(t, {}, { data: place.root });
    assert.deepEqual(problems(findings), []);
    assert.match(unwell(findings, "data directory").join(), new RegExp(`a server is using this directory \\(process ${process.pid}\\)`));
    assert.ok(findings.some(({ check, seen }) => check === "database" && seen.startsWith("embedded, PostgreSQL")));
  } finally {
    await embedded.stop();
  }
});

test("ends checks at their time limit when database and bus accept connections but never respond", LIMIT, async (t) => {
  const silent = createServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  t.after(() => silent.close());
  const sockets = new Set<{ destroy(): void }>();
  silent.on("connection", (socket) => sockets.add(socket));
  const { port } = silent.address() as AddressInfo;
  const env = { DATABASE_URL: `postgres://a:geheim@127.0.0.1:${port}/x`, ROAMFLEET_BUS_URL: `nats://a:geheim@127.0.0.1:${port}` };
  const findings = await examine({ env, flags: { data: await temporary(t), listen: "127.0.0.1:0" }, clock: systemClock, timeout_ms: 300 });
  for (const socket of sockets) socket.destroy();
  assert.equal(unwell(findings, "database", "bus").length, 2, JSON.stringify(findings));
  assert.ok(!JSON.stringify(findings).includes("geheim"));
});

test("reports whether NATS refuses the credentials, lacks permissions or is unreachable", { ...LIMIT, skip: SKIP_NATS }, async (t) => {
  const permissions = 'permissions: { publish: "other.>", subscribe: "roamfleet.>" }';
  await using nats = await NatsServer.start({
    config: `authorization { users: [{ user: u, password: s3cretpass }, { user: v, password: p, ${permissions} }] }`,
  });
  const bus = async (url: string): Promise<Finding[]> =>
    await examined(t, { ROAMFLEET_BUS_URL: url, DATABASE_URL: "postgres://db/x" }, {}, "bus");
  const [good] = await bus(nats.url({ user: "u:s3cretpass" }));
  assert.equal(good?.status, "ok");
  assert.match(good.seen, /^127.0.0.1:\d+, NATS 2\./);
  const wrong = await bus(nats.url({ user: "u:wr0ngpass" }));
  assert.match(unwell(wrong, "bus").join(), /^bus problem: 127.0.0.1:\d+ refuses the credentials/);
  assert.ok(!/s3cretpass|wr0ngpass/.test(JSON.stringify([good, wrong])));
  assert.match(unwell(await bus(nats.url()), "bus").join(), /refuses the credentials/);
  assert.match(unwell(await bus(nats.url({ user: "v:p" })), "bus").join(), /bus problem: .*Permissions Violation/);
  await nats.kill();
  assert.match(unwell(await bus(nats.url({ user: "u:s3cretpass" })), "bus").join(), /nothing listens there/);
});

test("reports a secret file that cannot be read, and skips the checks that need it", LIMIT, async (t) => {
  const env = { DATABASE_URL_FILE: "/nonexistent/url", SERVICE_ADMIN_TOKEN_FILE: "/nonexistent/token" };
  const about_secrets = ["admin token", "PostgreSQL here", "database", "other servers"];
  const findings = await examined(t, env, {}, "settings", ...about_secrets);
  assert.deepEqual(unwell(findings, "settings", ...about_secrets), [
    "settings problem: DATABASE_URL_FILE: /nonexistent/url cannot be read (ENOENT)",
    "settings problem: SERVICE_ADMIN_TOKEN_FILE: /nonexistent/token cannot be read (ENOENT)",
  ]);
  assert.deepEqual(
    findings.filter(({ status }) => status === "skipped").map(({ check, seen }) => [check, seen]),
    about_secrets.map((check) => [check, "not checked: first fix the problem in settings"]),
  );
});

test("tests an S3 store with temporary objects, and reports each refused operation", LIMIT, async (t) => {
  await using store = await S3ForTests.start();
  const place = store.place();
  const env = (bucket = place.bucket, endpoint = place.endpoint): NodeJS.ProcessEnv => ({
    ROAMFLEET_BLOBS_URL: `s3://${bucket}/${place.prefix}?endpoint=${endpoint}&path_style=1`,
    AWS_ACCESS_KEY_ID: place.credentials?.access_key_id,
    AWS_SECRET_ACCESS_KEY: place.credentials?.secret_access_key,
  });
  const artifacts = async (of: NodeJS.ProcessEnv): Promise<Finding[]> => await examined(t, of, {}, "artifacts");
  const [good] = await artifacts(env());
  assert.equal(good?.status, "ok", JSON.stringify(good));
  const made = store.requests.filter(({ method }) => method === "PUT").map(({ url }) => url.split("?")[0]);
  const removed = store.requests.filter(({ method }) => method === "DELETE").map(({ url }) => url.split("?")[0]);
  assert.ok(made.length >= 2 && made.every((url) => url?.startsWith(`/${place.bucket}/${place.prefix}/doctor/`)), made.join());
  assert.deepEqual(
    [...new Set(made)].filter((url) => !removed.includes(url)),
    [],
  );
  assert.equal(store.begun.size, 0);

  assert.match(unwell(await artifacts(env("missing-bucket")), "artifacts").join(), /problem: .*NoSuchBucket/);
  assert.match(unwell(await artifacts(env(place.bucket, "http://127.0.0.1:1")), "artifacts").join(), /problem: .*ECONNREFUSED/);
  store.fault = ({ method }) => (method === "DELETE" ? s3Fault(403, "AccessDenied") : undefined);
  const kept = await artifacts(env());
  assert.match(
    unwell(kept, "artifacts").join("\n"),
    /problem: .* no permission to delete\nartifacts warning: test objects of this check could not be removed: doctor\//,
  );
  assert.ok(!JSON.stringify(kept).includes(place.credentials?.secret_access_key ?? "?"));
});

test("reports a private key that does not match the certificate, and missing TLS files", LIMIT, async (t) => {
  const directory = await temporary(t);
  const authority = await openAuthority(directory, new Date());
  const [one, other] = [await authority.issue(["localhost"], new Date()), await authority.issue(["localhost"], new Date())];
  const [tlsCert, tlsKey] = [path.join(directory, "c.pem"), path.join(directory, "k.pem")];
  await writeFile(tlsCert, one.cert);
  await writeFile(tlsKey, other.key, { mode: 0o600 });
  const tls = async (flags: ServeFlags): Promise<string> => unwell(await examined(t, {}, flags, "TLS"), "TLS").join();
  assert.match(await tls({ tlsCert, tlsKey }), /^TLS problem: .*k\.pem is not the private key of .*c\.pem$/);
  assert.match(await tls({ tlsCert, tlsKey: `${tlsKey}.gone` }), /^TLS problem: .*k\.pem\.gone does not exist$/);
  await writeFile(tlsKey, one.key);
  assert.equal(await tls({ tlsCert, tlsKey }), "");
  assert.equal(await tls({ data: directory, tls: "auto" }), "");
  await writeFile(path.join(directory, "tls", "ca-key.pem"), one.key);
  assert.match(await tls({ data: directory, tls: "auto" }), /^TLS problem: the server's own certificate authority cannot be used/);
});

test("reports a data directory that is read-only, not a directory or partly restored", LIMIT, async (t) => {
  const directory = await temporary(t);
  const told = async (data: string): Promise<string> =>
    unwell(await examined(t, {}, { data }, "data directory"), "data directory").join("\n");
  const closed = path.join(directory, "closed");
  await mkdir(closed, { mode: 0o500 });
  // Root ignores file modes, but cannot write to the kernel's /proc.
  const denied = process.getuid?.() === 0 ? "/proc/roamfleet" : closed;
  assert.match(await told(denied), /^data directory problem: .* cannot be (created in|written)/);
  const file = path.join(directory, "file");
  await writeFile(file, "");
  assert.match(await told(file), /^data directory problem: .*file is not a directory$/);
  assert.match(await told(path.join(file, "below")), /^data directory problem: .*file is not a directory$/);
  await writeFile(path.join(directory, "restore-unfinished"), "");
  assert.match(await told(directory), /^data directory problem: a restore into this directory has not finished/);
});

test("reports a listen address that another process uses", LIMIT, async (t) => {
  const server = createServer((socket) => void socket.end("SSH-2.0-x\r\n")).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const found = await examined(t, {}, { listen: `127.0.0.1:${port}` }, "address");
  assert.deepEqual(unwell(found, "address"), [`address problem: 127.0.0.1:${port} is in use by another process`]);
  const env = { ROAMFLEET_BUS_URL: "nats://127.0.0.1:1" };
  const nodes = await examined(t, env, { nodeListen: `127.0.0.1:${port}` }, "address");
  assert.deepEqual(unwell(nodes, "address"), [`address problem: 127.0.0.1:${port} is in use by another process`]);
  const wrong = await examined(t, env, { nodeListen: "everywhere" }, "settings", "address");
  assert.match(
    unwell(wrong, "settings", "address").join(),
    /^settings problem: --node-listen everywhere: expected HOST:PORT[^,]*, for example 10[^,]*$/,
  );
});

test("reports a check that times out or throws, without showing the database password", LIMIT, async () => {
  const DATABASE_URL = "postgres://a:geheim@db/x";
  const { settings, wrong_parts } = readAllSettings({}, { DATABASE_URL });
  const context = {
    settings,
    wrong_parts,
    wrong_settings: [],
    env: {},
    clock: systemClock,
    timeout_ms: 20,
    database: async () => ({ absent: "" }),
  };
  const late = await runCheck({ name: "late", check: () => new Promise(() => {}) }, context);
  assert.deepEqual(
    late.map(({ check, status, seen }) => [check, status, seen]),
    [["late", "problem", "no answer within 20 ms"]],
  );
  const thrown = await runCheck({ name: "thrown", check: () => Promise.reject(new Error("cannot use geheim")) }, context);
  assert.match(thrown[0]?.seen ?? "", /cannot use \[secret\]$/);
});

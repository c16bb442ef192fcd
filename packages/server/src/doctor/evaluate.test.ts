import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { X509Certificate } from "node:crypto";
import { LIMIT_DEFAULTS, readSettings } from "../config.ts";
import type { NatsSeen } from "../engines/bus/index.ts";
import type { DatabaseSeen, MigrationsSeen } from "../engines/db/index.ts";
import { S3Error } from "../engines/blobs/index.ts";
import { openAuthority } from "../kernel/tls/certificate-authority.ts";
import { parseMasterKeys } from "../kernel/master-keys.ts";
import { evaluateAdminToken, evaluateHostNames, evaluateProxies, evaluateSettings } from "./checks/settings.ts";
import { evaluateS3 } from "./checks/artifacts.ts";
import { evaluateBus } from "./checks/bus.ts";
import { evaluateDisk } from "./checks/data-directory.ts";
import { evaluateDatabase, evaluateFailure, evaluateMigrations } from "./checks/database.ts";
import { evaluateListen, evaluateNodeAddress } from "./checks/listen.ts";
import { evaluateMemory, evaluateNode, evaluateOpenFiles } from "./checks/machine.ts";
import { evaluateEndpoint } from "./checks/metrics.ts";
import { evaluateNodes, type NodeSeen } from "./checks/nodes.ts";
import { evaluateKeys } from "./checks/secrets-key.ts";
import { evaluateChain, parseChain } from "./checks/tls.ts";
import type { Seen } from "./finding.ts";
import { readAllSettings } from "./read-settings.ts";

const LIMIT = { timeout: 60_000 };
const DAY_MS = 86_400_000;
const settings = readSettings({}, {});

/** Returns the findings that are problems or warnings, as `STATUS: TEXT`. */
const unwell = (found: Seen | Seen[]): string[] =>
  [found].flat().flatMap(({ status, seen, hint }) => {
    if (status === "ok" || status === "skipped") return [];
    assert.ok(hint, `${seen}: has no hint`);
    return [`${status}: ${seen}`];
  });

function assertUnwell(found: Seen | Seen[], ...expected: RegExp[]): void {
  const seen = unwell(found);
  assert.equal(seen.length, expected.length, JSON.stringify(seen));
  for (const [at, pattern] of expected.entries()) assert.match(seen[at] ?? "", pattern);
}

test("does not report variables of rf or rf-agent as typos of server variables", () => {
  const sources = globSync(path.join(import.meta.dirname, "../../../{cli,agent,sdk}/src/**/*.ts")).filter(
    (file) => !file.endsWith(".test.ts"),
  );
  const names = new Set(sources.flatMap((file) => readFileSync(file, "utf8").match(/\bROAMFLEET_[A-Z][A-Z_]*[A-Z]\b/g) ?? []));
  assert.ok(names.has("ROAMFLEET_TOKEN") && names.has("ROAMFLEET_STATE"), [...names].join());
  for (const name of names) {
    const findings = evaluateSettings({ env: { [name]: "x" }, settings, wrong_settings: [] });
    assert.deepEqual(
      findings.filter(({ status }) => status === "warning" && name !== "ROAMFLEET_FAILPOINT"),
      [],
      name,
    );
  }
});

test("reports all invalid settings in one run, and still reads the valid ones", () => {
  const read = readAllSettings(
    { listen: "here", tls: "some", limit: ["robots_max=7", "robots=1", "log_flush_ms=soon"], logLevel: "loud" },
    {
      ROAMFLEET_BUS_URL: "http://u:s3cret@a",
      ROAMFLEET_DASHBOARD: "maybe",
      DATABASE_URL: "postgres://a/b",
      ROAMFLEET_BEHIND_PROXY: "10.0.0.1",
    },
  );
  assert.deepEqual(
    read.errors.map((error) => error.split(/[: ]/)[0]),
    ["--listen", "--tls", "ROAMFLEET_BUS_URL", "--limit", "--limit", "--log-level", "ROAMFLEET_DASHBOARD=maybe"],
  );
  assert.deepEqual([...read.wrong_parts], ["listen", "tls", "bus", "limits", "others"]);
  assert.equal(read.settings.database_url, "postgres://a/b");
  assert.deepEqual(read.settings.behind_proxy, ["10.0.0.1"]);
  assert.ok(!read.errors.join().includes("s3cret"));
});

test("reports a public listen address without TLS, but not in addition to invalid TLS settings", () => {
  const open = readAllSettings({ listen: "0.0.0.0:1" }, {});
  assert.match(open.errors.join(), /^refusing to listen on 0.0.0.0 without TLS/);
  assert.deepEqual([open.settings.listen.host, [...open.wrong_parts]], ["127.0.0.1", ["listen"]]);
  assert.equal(readAllSettings({ listen: "0.0.0.0:1", tlsCert: "c.pem" }, {}).errors.length, 1);
  assert.deepEqual(readAllSettings({ listen: "0.0.0.0:1", tls: "auto" }, {}).errors, []);
});

test("warns about an unknown environment variable that resembles a known one", () => {
  const of = (env: NodeJS.ProcessEnv) => evaluateSettings({ env, settings, wrong_settings: [] });
  assertUnwell(
    of({ ROAMFLEET_BLOB_URL: "x", ROAMFLEET_TOKEN: "x", ROAMFLEET_ORG: "x", DATABASE_URLS: "x" }),
    /^warning: ROAMFLEET_BLOB_URL/,
    /DATABASE_URLS/,
  );
  assert.deepEqual(of({ SERVICE_ADMIN_TOKEN: "secret", HOME: "/root" }), [{ status: "ok", seen: "SERVICE_ADMIN_TOKEN" }]);
});

test("reports how many robots a small machine can serve", () => {
  assert.deepEqual(unwell(evaluateNode("24.0.0")), []);
  assertUnwell(evaluateNode("22.11.0"), /^problem: Node 22.11.0/);
  assert.deepEqual(unwell(evaluateOpenFiles(1_048_576, LIMIT_DEFAULTS)), []);
  const few = evaluateOpenFiles(4_096, LIMIT_DEFAULTS);
  assertUnwell(few, /^warning: at most 4096 here; 22000/);
  assert.match(few.hint ?? "", /robots_max=2096$/);
  assert.deepEqual(unwell(evaluateMemory(8 * 1024 ** 3, LIMIT_DEFAULTS)), []);
  assertUnwell(evaluateMemory(1024 ** 3, LIMIT_DEFAULTS), /^warning: 1.0 GiB/);
  assert.match(evaluateMemory(0, LIMIT_DEFAULTS).hint ?? "", /robots_max=0$/);
});

test("reports disks that are full, nearly full or on a network file system", () => {
  const disk = { type: 0xef53, bsize: 4_096, bavail: 10_000_000, files: 1_000_000, ffree: 900_000 };
  assert.deepEqual(unwell(evaluateDisk(disk, settings)), []);
  assertUnwell(evaluateDisk({ ...disk, bavail: 1_000 }, settings), /^problem: 3.9 MiB are free/);
  assertUnwell(evaluateDisk({ ...disk, bavail: 100_000 }, settings), /^warning: 391 MiB/);
  assertUnwell(evaluateDisk({ ...disk, ffree: 3 }, settings), /^warning: only 3 more files/);
  assertUnwell(evaluateDisk({ ...disk, type: 0x6969 }, settings), /^warning: the data directory is on NFS/);
  // Some kernels return the type of the file system sign-extended.
  assertUnwell(evaluateDisk({ ...disk, type: 0xfe534d42 | 0 }, settings), /^warning: the data directory is on SMB/);
});

test("reports an occupied address as a problem, or as a warning if Roamfleet uses it", () => {
  const at = { host: "::1", port: 443 };
  assertUnwell(evaluateListen(at, "EADDRINUSE", "unknown"), /^problem: \[::1\]:443 is in use/);
  assertUnwell(evaluateListen(at, "EADDRINUSE", "roamfleet"), /^warning: a Roamfleet server already listens/);
  assertUnwell(evaluateListen(at, "EACCES", "unknown"), /^problem: this user may not listen/);
  assertUnwell(evaluateListen(at, "EADDRNOTAVAIL", "unknown"), /^problem: this machine has no address ::1/);
});

test("warns about missing host names behind a proxy, and about robots refused for their host name", () => {
  const of = (host_names: string[], behind_proxy: string[], refused: string[] = []) =>
    evaluateHostNames({ host_names, behind_proxy }, refused);
  assert.deepEqual(unwell([...of([], []), ...of(["fleet.test"], ["10.0.0.1"])]), []);
  assertUnwell(of([], ["10.0.0.1"]), /^warning: not set: behind a proxy/);
  const refused = of(["fleet.test"], ["10.0.0.1"], ["evil.test", "robots.fleet.test"]);
  assertUnwell(
    refused,
    /^warning: in the last 24 hours, this server refused requests that robots had signed for evil\.test, robots\.fleet\.test/,
  );
  assert.match(refused[0]?.hint ?? "", /--host-name/);
});

test("reports a node address that is local, occupied or on the port of --listen", () => {
  const told = { host: "10.0.0.7", port: 7601 };
  const of = (node_listen: string, port: number, listen_host: string, at = told) =>
    evaluateNodeAddress({ host: node_listen, port }, at, { host: listen_host, port: 7600 });
  assert.deepEqual(of("0.0.0.0", 7601, "0.0.0.0"), [
    { status: "ok", seen: "0.0.0.0:7601 is free for connections of other servers, which use the address 10.0.0.7:7601" },
  ]);
  assertUnwell(of("0.0.0.0", 7600, "127.0.0.1"), /^problem: --node-listen 0.0.0.0:7600 and --listen 127.0.0.1:7600 are the same port/);
  assert.deepEqual(unwell(of("10.0.0.7", 7600, "127.0.0.1")), []);
  assertUnwell(
    of("0.0.0.0", 7601, "0.0.0.0", { host: "127.0.0.1", port: 7601 }),
    /^warning: the address that other servers use for this server is 127.0.0.1:7601/,
  );
  assertUnwell(evaluateListen(told, "EADDRINUSE", undefined, "--node-listen"), /^problem: 10.0.0.7:7601 is in use/);
});

test("reports proxies that cannot reach the server, and proxy ranges that are too wide", () => {
  const of = (behind_proxy: string[], host = "0.0.0.0") => evaluateProxies({ behind_proxy, listen: { host, port: 1 } });
  assert.deepEqual(unwell(of(["10.0.0.0/8", "fd00:3::/64"])), []);
  assert.deepEqual(unwell(of(["127.0.0.1"], "127.0.0.1")), []);
  assertUnwell(of(["10.0.0.1"], "127.0.0.1"), /^problem: the server only listens on this machine/);
  assertUnwell(of(["10.0.0.0/7", "10.1.0.0/16", "fd00::/8"]), /^warning: 10.0.0.0\/7, fd00::\/8 covers more/);
});

test("warns about a public server without an admin token, and about a guessable token", () => {
  const of = (admin_token: string | undefined, more: Partial<typeof settings> = {}) =>
    evaluateAdminToken({ ...settings, admin_token, ...more });
  assert.deepEqual(unwell(of(undefined)), []);
  assertUnwell(of(undefined, { behind_proxy: ["10.0.0.1"] }), /^warning: not set: behind a proxy/);
  assertUnwell(of(undefined, { listen: { host: "0.0.0.0", port: 1 } }), /^warning: not set/);
  assertUnwell(of("hunter2"), /^warning: set, but so short/);
  assertUnwell(of("a".repeat(64)), /^warning: set, but so short/);
  assert.deepEqual(of("8f14e45fceea167a5a36dedd4bea2543"), { status: "ok", seen: "set" });
});

test("reports certificates with invalid dates, no host name or a broken chain", LIMIT, async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-doctor-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const now = new Date("2030-01-01T00:00:00Z");
  const later = (days: number) => new Date(now.getTime() + days * DAY_MS);
  const authority = await openAuthority(directory, now);
  const chain = parseChain((await authority.issue(["fleet.example.com", "10.0.0.1"], now)).cert);
  assert.equal(chain.length, 2);
  assert.deepEqual(evaluateChain(chain, now), [{ status: "ok", seen: "fleet.example.com, 10.0.0.1, valid for 90 days" }]);
  assertUnwell(evaluateChain(chain, later(80)), /^warning: the certificate expires on 2030-04-01, in 10 days$/);
  assertUnwell(evaluateChain(chain, later(91)), /^problem: the certificate expired on 2030-04-01$/);
  assertUnwell(
    evaluateChain(chain, later(-30)),
    /^problem: the certificate is only valid from/,
    /^problem: Roamfleet CA .* in the chain is only valid from/,
  );
  assertUnwell(evaluateChain(chain.slice(0, 1), now), /^warning: the chain ends with Roamfleet server, whose issuer is not a public root/);
  assertUnwell(
    evaluateChain([...chain.slice(0, 1), new X509Certificate(chain[0]!.raw), ...chain.slice(1)], now),
    /^problem: Roamfleet server is not signed by Roamfleet server/,
  );
  // The CA's certificate contains no host name.
  assertUnwell(evaluateChain(chain.slice(1), now), /^problem: the certificate names no host/);
  assertUnwell(evaluateChain([], now), /^problem: the file contains no certificate/);
});

const database: DatabaseSeen = {
  user: "fleet",
  database: "plant",
  version: 150_004,
  version_name: "15.4 (Debian 15.4-1)",
  encoding: "UTF8",
  durability: { fsync: "on", synchronous_commit: "remote_apply", full_page_writes: "on" },
  read_only: undefined,
  connections_max: 97,
  connections_of_others: 3,
  may_create: true,
  may_serve_orgs: true,
  is_encrypted: true,
  round_trip_ms: 0.4,
  clock_ahead_ms: 3,
  migrations: { pending: [], unknown: [], is_new: false },
};

test("reports a database with unsuitable version, durability, permissions, connections, clock or latency", () => {
  const of = (seen: Partial<DatabaseSeen>, database_url = "postgres://fleet:geheim@db.example.com/plant") =>
    evaluateDatabase({ ...database, ...seen }, { ...settings, database_url });
  assert.deepEqual(of({}), [{ status: "ok", seen: "postgres://db.example.com/plant, PostgreSQL 15.4, 0.4 ms round trip" }]);
  assertUnwell(of({ version: 140_011, version_name: "14.11" }), /^problem: PostgreSQL 14.11; 15 or newer/);
  assertUnwell(of({ encoding: "SQL_ASCII" }), /^problem: the encoding of the database is SQL_ASCII/);
  assertUnwell(of({ read_only: "replica" }), /^problem: the database server is a read-only replica/);
  assertUnwell(of({ read_only: "settings" }), /^problem: sessions of the database are read-only/);
  assertUnwell(
    of({ durability: { fsync: "off", synchronous_commit: "off", full_page_writes: "on" } }),
    /^problem: fsync is off/,
    /^problem: synchronous_commit is off/,
  );
  assertUnwell(of({ may_create: false, may_serve_orgs: false }), /^problem: .* may not create tables/, /^problem: .* pg_database_owner/);
  assertUnwell(of({ connections_max: 8 }), /^problem: 12 connections are needed/);
  assertUnwell(of({ connections_max: 40, connections_of_others: 35 }), /^warning: 12 connections are needed/);
  assertUnwell(of({ clock_ahead_ms: -2_500 }), /^warning: the database's clock is 2.5 s behind/);
  assertUnwell(of({ clock_ahead_ms: 300_000 }), /^problem: the database's clock is 5 min ahead/);
  // A clock difference of less than half a round trip proves nothing.
  assertUnwell(of({ clock_ahead_ms: 1_400, round_trip_ms: 1_000 }), /^warning: a round trip to the database takes 1.0 s/);
  assertUnwell(of({ is_encrypted: false }), /^warning: .* not encrypted/);
  assert.deepEqual(unwell(of({ is_encrypted: false }, "postgres://fleet:geheim@127.0.0.1/plant")), []);
});

test("reports pending migrations as a warning, and migrations of a newer version as a problem", () => {
  const of = (seen: Partial<MigrationsSeen>) => evaluateMigrations({ pending: [], unknown: [], is_new: false, ...seen });
  assert.deepEqual(unwell([of({}), of({ is_new: true, pending: ["0001_initial"] })]), []);
  assertUnwell(of({ pending: ["0002_more"] }), /^warning: 1 pending: 0002_more/);
  assertUnwell(of({ unknown: ["0009_later"] }), /^problem: .* newer version: it has migrations that this version lacks: 0009_later/);
});

test("removes the password from the database's error message", () => {
  const refused = Object.assign(new Error('no entry for "p%40ss"\nfor p@ss'), { code: "28000" });
  assertUnwell(
    evaluateFailure(refused, "postgres://fleet:p%40ss@db/plant"),
    /^problem: postgres:\/\/db\/plant: no entry for "\[secret\]"$/,
  );
  const both = new AggregateError([Object.assign(new Error("connect ECONNREFUSED ::1:5432"), { code: "ECONNREFUSED" })]);
  const found = evaluateFailure(both, "postgres://localhost/plant");
  assertUnwell(found, /connect ECONNREFUSED ::1:5432$/);
  assert.match(found.hint ?? "", /check that PostgreSQL runs/);
});

test("reports secrets in the database that no configured key can decrypt", () => {
  const keys = parseMasterKeys("ab".repeat(32), "test");
  const none = { readable: 0, unknown: 0, damaged: 0 };
  assert.deepEqual(
    unwell([evaluateKeys({ keys, where: "f" }, { ...none, readable: 2 }), evaluateKeys({ keys: undefined, where: "f" }, none)]),
    [],
  );
  assertUnwell(
    evaluateKeys({ keys: undefined, where: "f" }, { ...none, unknown: 2 }),
    /^problem: there is no secrets key, but the database contains/,
  );
  assertUnwell(evaluateKeys({ keys, where: "f" }, { ...none, unknown: 1 }), /^problem: the secrets of one data key cannot be decrypted/);
  assertUnwell(evaluateKeys({ keys, where: "f" }, { ...none, damaged: 1 }), /^problem: 1 data keys .* damaged/);
});

test("reports each NATS server that is unreachable, outdated, restricted or unencrypted", () => {
  const server: NatsSeen = {
    server: "nats-1:4222",
    version: "2.10.3",
    max_payload: 1_048_576,
    wants_credentials: true,
    is_encrypted: true,
    forbidden: [],
    round_trip_ms: 1,
  };
  const of = (...seen: Partial<NatsSeen>[]) =>
    evaluateBus(
      seen.map((one) => ({ ...server, ...one })),
      true,
    );
  assert.deepEqual(unwell(of({}, {})), []);
  const away = { failure: { refused: false, reason: "ECONNREFUSED" } };
  assertUnwell(of({}, away), /^warning: nats-1:4222 cannot be reached: nothing listens there/);
  assertUnwell(of(away), /^problem: .* nothing listens there/);
  assertUnwell(of({ failure: { refused: true, reason: "Authorization Violation" } }), /^problem: .* refuses the credentials/);
  assertUnwell(of({ version: "2.8.4" }), /^problem: .* 2.9 or newer/);
  assertUnwell(of({ max_payload: 65_536 }), /^warning: .* up to 64.0 KiB/);
  assertUnwell(of({ round_trip_ms: undefined }), /^problem: .* did not deliver a test message/);
  assertUnwell(of({ forbidden: ["Permissions Violation"], round_trip_ms: undefined }), /^problem: .* Permissions Violation/);
  assertUnwell(of({ wants_credentials: false, is_encrypted: false }), /^warning: .* without credentials/, /^warning: .* unencrypted/);
});

test("names the missing permission for each operation that the S3 store refuses", () => {
  const place = {
    bucket: "robots",
    prefix: "prod",
    endpoint: "http://10.0.0.1:9000",
    region: "eu",
    path_style: true,
    credentials: undefined,
  };
  const seen = { failed: [], left: [], clock_ahead_ms: -400, write_ms: 3 };
  assertUnwell(evaluateS3(seen, place), /^warning: artifacts are transferred .* unencrypted/);
  const secure = { ...place, endpoint: "https://s3.example.com" };
  assert.deepEqual(unwell(evaluateS3(seen, secure)), []);
  const denied = evaluateS3(
    { ...seen, failed: [{ step: "delete", error: new S3Error("DeleteObject", "AccessDenied", 403, "") }], left: ["doctor/x"] },
    secure,
  );
  assertUnwell(denied, /^problem: s3:\/\/robots\/prod at https:\/\/s3.example.com: no permission to delete/, /^warning: .* doctor\/x/);
  assert.match(denied[0]?.hint ?? "", /s3:DeleteObject/);
  assertUnwell(evaluateS3({ ...seen, clock_ahead_ms: 300_000 }, secure), /^warning: the store's clock is 5 min ahead/);
  const missing = new S3Error("ListObjectsV2", "NoSuchBucket", 404, "");
  assertUnwell(evaluateS3({ ...seen, failed: [{ step: "list", error: missing }] }, secure), /^problem: .*NoSuchBucket \(HTTP 404\)/);
});

test("reports unreachable servers, and settings that several servers must share", () => {
  const node = (id: string, more: Partial<NodeSeen> = {}): NodeSeen => ({
    id,
    address: `10.0.0.${id}:7601`,
    is_alive: true,
    is_reachable: true,
    ...more,
  });
  const shared = readSettings({}, { DATABASE_URL: "postgres://db/x", ROAMFLEET_BUS_URL: "nats://a", ROAMFLEET_BLOBS_URL: "s3://robots" });
  const of = (nodes: NodeSeen[], more: Partial<typeof shared> = {}) =>
    evaluateNodes(nodes, { own_id: "1", settings: { ...shared, ...more }, connections_max: 97 });
  assert.deepEqual(of([]), [{ status: "ok", seen: "no other server is running" }]);
  assert.deepEqual(of([node("2")]), [{ status: "ok", seen: "1 running: 2 at 10.0.0.2:7601" }]);
  assertUnwell(of([node("2")], { bus: undefined }), /^problem: other servers use this database/);
  assertUnwell(of([node("2")], { blobs: undefined }), /^warning: artifacts are in this server's directory/);
  assertUnwell(of([node("1")]), /^warning: a server with the id of this data directory/);
  assertUnwell(of([node("2", { is_reachable: false })]), /^warning: 2 is unreachable at 10.0.0.2:7601/);
  assertUnwell(of([node("2", { address: null, is_reachable: undefined })]), /^warning: 2 does not listen for other servers/);
  assertUnwell(of([node("2"), node("3", { address: "10.0.0.2:7601" })]), /^warning: 3 has the same address/);
  assertUnwell(of(Array.from({ length: 9 }, (_, at) => node(`2${at}`))), /^problem: 10 servers need 100 database connections/);
  // If a server was killed while no other server ran, its row remains. That is no problem to report.
  assert.deepEqual(unwell(of([node("2", { is_alive: false, is_reachable: undefined })], { bus: undefined, blobs: undefined })), []);
});

test("metrics: reports why the services for samples cannot be used, without their passwords", () => {
  const of = (url: string, answer: number | Error, token?: string) => evaluateEndpoint("VARIABLE", { url, token }, answer);
  const url = "https://me:s3cret@prometheus.example.com/api/v1/write";
  assert.deepEqual(unwell(of(url, 204)), []);
  assertUnwell(of(url, 401), /^problem: https:\/\/prometheus.example.com\/api\/v1\/write refuses the credentials/);
  assertUnwell(of(url, 404), /^problem: .* does not exist$/);
  assertUnwell(of(url, 302), /^problem: .* status 302$/);
  assertUnwell(of(url, new Error("no complete response in time")), /^problem: .*: no complete response in time$/);
  assertUnwell(of(url.replace("https", "http"), 204), /^warning: credentials are sent to http:\/\/prometheus.example.com\/.* unencrypted$/);
  assert.deepEqual(unwell(of("http://127.0.0.1:9090", 200, "token")), []);
});

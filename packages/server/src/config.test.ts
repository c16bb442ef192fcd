import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { readSettings, SettingsError } from "./config.ts";

test("reads the failpoint variables only with the --crash-at-failpoint flag, which requires them", () => {
  const armed = { ROAMFLEET_FAILPOINT: "features/sites/store.insertSite:begin", ROAMFLEET_FAILPOINT_LOG: "/log" };
  const seen = (flags: Parameters<typeof readSettings>[0], env: NodeJS.ProcessEnv): unknown => {
    const { failpoint, failpoint_ignored } = readSettings(flags, env);
    return { spec: failpoint?.spec, ignored: failpoint_ignored };
  };
  assert.deepEqual(seen({}, {}), { spec: undefined, ignored: false });
  assert.deepEqual(seen({}, armed), { spec: undefined, ignored: true });
  assert.deepEqual(seen({ crashAtFailpoint: true }, armed), { spec: armed.ROAMFLEET_FAILPOINT, ignored: false });
  for (const missing of [{}, { ...armed, ROAMFLEET_FAILPOINT_LOG: "" }, { ...armed, ROAMFLEET_FAILPOINT: "" }])
    assert.throws(() => readSettings({ crashAtFailpoint: true }, missing), SettingsError);
});

test("takes the S3 bucket from ROAMFLEET_BLOBS_URL and the credentials from the AWS variables", () => {
  const url = "s3://robots/prod?endpoint=http://10.0.0.1:9000&path_style=1";
  const place = { bucket: "robots", prefix: "prod", endpoint: "http://10.0.0.1:9000", path_style: true };
  const keys = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
  const credentials = { access_key_id: "id", secret_access_key: "secret", session_token: undefined };
  assert.equal(readSettings({}, keys).blobs, undefined);
  assert.deepEqual(readSettings({}, { ROAMFLEET_BLOBS_URL: url, ...keys }).blobs, { ...place, region: "us-east-1", credentials });
  assert.deepEqual(readSettings({}, { ROAMFLEET_BLOBS_URL: url, AWS_REGION: "eu-west-1" }).blobs, {
    ...place,
    region: "eu-west-1",
    credentials: undefined,
  });
  assert.equal(readSettings({}, { ROAMFLEET_BLOBS_URL: `${url}&region=here`, AWS_REGION: "eu-west-1" }).blobs?.region, "here");
});

test("refuses an invalid artifact store URL without repeating it in the error", () => {
  const refused = (env: NodeJS.ProcessEnv, message: RegExp): void => {
    assert.throws(
      () => readSettings({}, env),
      (error) => error instanceof SettingsError && message.test(error.message) && !/secret/.test(error.message),
    );
  };
  refused({ ROAMFLEET_BLOBS_URL: "s3://id:secret@robots" }, /^ROAMFLEET_BLOBS_URL: contains credentials/);
  refused({ ROAMFLEET_BLOBS_URL: "/srv/secret" }, /^ROAMFLEET_BLOBS_URL: expected s3:\/\/bucket/);
  refused({ ROAMFLEET_BLOBS_URL: "s3://robots", AWS_SECRET_ACCESS_KEY: "secret" }, /^AWS_ACCESS_KEY_ID and .* one of them is missing$/);
});

test("parses the message bus URL, and omits the password from errors", () => {
  const bus = (url: string) => readSettings({}, { ROAMFLEET_BUS_URL: url }).bus;
  assert.equal(bus(""), undefined);
  assert.deepEqual(bus("nats://fleet:s3cret@a/plant")?.credentials, { user: "fleet", pass: "s3cret" });
  for (const url of ["http://fleet:s3cret@a", "nats://fleet:s3cret%zz@a", "nats://fleet:s3cret@a/b/c"])
    assert.throws(
      () => bus(url),
      (error: unknown) => error instanceof SettingsError && !error.message.includes("s3cret"),
    );
});

test("reads the addresses for connections between servers when a bus is configured", () => {
  const bus = { ROAMFLEET_BUS_URL: "nats://a" };
  assert.equal(readSettings({ nodeListen: "10.0.0.7:7601" }, {}).nodes, undefined);
  assert.deepEqual(readSettings({}, bus).nodes, { listen: { host: "0.0.0.0", port: 7601 }, address: undefined });
  const env = { ...bus, ROAMFLEET_NODE_LISTEN: "[::]:0", ROAMFLEET_NODE_ADDRESS: "node-1:7700" };
  assert.deepEqual(readSettings({}, env).nodes, { listen: { host: "::", port: 0 }, address: { host: "node-1", port: 7700 } });
  assert.deepEqual(readSettings({ nodeListen: "a:1", nodeAddress: "b:2" }, env).nodes, {
    listen: { host: "a", port: 1 },
    address: { host: "b", port: 2 },
  });
  for (const flags of [{ nodeListen: "7601" }, { nodeAddress: "http://b:1" }]) assert.throws(() => readSettings(flags, bus), SettingsError);
});

test("reads a secret from the file that its _FILE variable names, and refuses an empty file", (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-settings-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const write = (name: string, content: string): string => {
    const file = path.join(directory, name);
    writeFileSync(file, content);
    return file;
  };
  const env = {
    DATABASE_URL_FILE: write("database", "postgres://fleet:s3cret@db/x\n"),
    SERVICE_ADMIN_TOKEN_FILE: write("admin", "  s3cret-token-of-the-file\r\n"),
    ROAMFLEET_BUS_URL_FILE: write("bus", "nats://fleet:s3cret@a"),
  };
  const { database_url, admin_token, bus, nodes } = readSettings({}, env);
  assert.deepEqual(
    [database_url, admin_token, bus?.credentials, nodes?.listen.port],
    ["postgres://fleet:s3cret@db/x", "s3cret-token-of-the-file", { user: "fleet", pass: "s3cret" }, 7601],
  );
  assert.equal(readSettings({}, { SERVICE_ADMIN_TOKEN_FILE: "" }).admin_token, undefined);
  const refused = (wrong: NodeJS.ProcessEnv, message: RegExp): void => {
    assert.throws(
      () => readSettings({}, wrong),
      (error) => error instanceof SettingsError && message.test(error.message) && !error.message.includes("s3cret"),
    );
  };
  for (const token of ["s3cret", "fifteen letters", "rf_an_admin_token_of_the_service"])
    refused({ SERVICE_ADMIN_TOKEN: token }, /^SERVICE_ADMIN_TOKEN (has fewer than 16 characters|begins with rf_)/);
  refused({ SERVICE_ADMIN_TOKEN_FILE: write("short", "s3cret") }, /^SERVICE_ADMIN_TOKEN has fewer than 16 characters/);
  refused({ SERVICE_ADMIN_TOKEN_FILE: write("empty", " \n") }, /^SERVICE_ADMIN_TOKEN_FILE: .*empty is empty$/);
  refused({ DATABASE_URL_FILE: path.join(directory, "none") }, /^DATABASE_URL_FILE: .*none cannot be read \(ENOENT\)$/);
  refused({ DATABASE_URL_FILE: directory }, /^DATABASE_URL_FILE: .* cannot be read \(EISDIR\)$/);
  refused({ ...env, DATABASE_URL: "postgres://s3cret" }, /^DATABASE_URL and DATABASE_URL_FILE are both set/);
  refused({ ROAMFLEET_BUS_URL_FILE: write("no-bus", "http://fleet:s3cret@a") }, /^ROAMFLEET_BUS_URL: expected nats:/);
});

test("refuses limits that would stop the server, or make a timer spin or overflow", () => {
  const limit =
    (text: string): (() => unknown) =>
    (): unknown =>
      readSettings({ limit: [text] }, {}).limits;
  for (const text of ["heartbeat_seconds=0", "heartbeat_seconds=0.01", "health_seconds=0", "log_flush_ms=0", "database_connections=0"])
    assert.throws(limit(text), SettingsError, text);
  for (const text of [
    "robots_max=-1",
    "robots_max=0",
    "robots_max= ",
    "robots_max=1e400",
    "heartbeat_seconds=4000000",
    "drain_seconds=1e9",
  ])
    assert.throws(limit(text), SettingsError, text);
  for (const text of [
    "drain_seconds=0",
    "log_bytes_per_org_max=0",
    "link_accepts_per_second=0",
    "audit_retention_days=0",
    "free_disk_bytes_min=0",
    "org_requests_per_hour=0",
    "heartbeat_seconds=5",
  ])
    assert.doesNotThrow(limit(text), text);
});

test("reads host names from flags or the environment, and refuses schemes, ports and wildcards", () => {
  const names = (flags: Parameters<typeof readSettings>[0], env: NodeJS.ProcessEnv = {}) => readSettings(flags, env).host_names;
  assert.deepEqual(names({}, { ROAMFLEET_HOST_NAMES: "" }), []);
  assert.deepEqual(names({}, { ROAMFLEET_HOST_NAMES: "fleet.test, 2001:db8::7" }), ["fleet.test", "2001:db8::7"]);
  assert.deepEqual(names({ hostName: ["a.test"] }, { ROAMFLEET_HOST_NAMES: "b.test" }), ["a.test"]);
  for (const wrong of ["https://fleet.test", "fleet.test:443", "*.fleet.test", ""])
    assert.throws(() => names({ hostName: [wrong] }), /--host-name .*without scheme and port/, wrong);
});

test("reads the mail server and the networks of alerts, and omits the password from errors", () => {
  const read = (env: Record<string, string>) => readSettings({}, env);
  const mail = { ROAMFLEET_SMTP_URL: "smtp://rf:s3cret@mail.example.org:587", ROAMFLEET_SMTP_FROM: "alerts@example.org" };
  assert.deepEqual(read(mail).smtp, { url: mail.ROAMFLEET_SMTP_URL, from: mail.ROAMFLEET_SMTP_FROM });
  assert.equal(read({}).smtp, undefined);
  assert.deepEqual(read({ ROAMFLEET_ALERT_NETWORKS: "10.0.0.0/8, ::1" }).alert_networks, ["10.0.0.0/8", "::1"]);
  for (const env of [
    { ROAMFLEET_SMTP_URL: mail.ROAMFLEET_SMTP_URL },
    { ...mail, ROAMFLEET_SMTP_URL: "http://rf:s3cret@mail.example.org" },
    { ...mail, ROAMFLEET_SMTP_FROM: "no address" },
    { ROAMFLEET_ALERT_NETWORKS: "intranet" },
  ])
    assert.throws(
      () => read(env),
      (error) => error instanceof SettingsError && !error.message.includes("s3cret"),
    );
});

test("reads the endpoints for samples of robots, and omits passwords from errors", () => {
  const read = (env: NodeJS.ProcessEnv) => readSettings({}, env).metric_endpoints;
  assert.deepEqual(read({}), { write: undefined, read: undefined });
  const url = "https://me:s3cret@prometheus.example.com/api/v1/write";
  assert.deepEqual(read({ ROAMFLEET_METRICS_REMOTE_WRITE_URL: url })?.write, { url, token: undefined });
  assert.deepEqual(read({ ROAMFLEET_METRICS_URL: "http://a", ROAMFLEET_METRICS_TOKEN: "t" })?.read, { url: "http://a", token: "t" });
  for (const wrong of [
    { ROAMFLEET_METRICS_URL: "ftp://me:s3cret@a" },
    { ROAMFLEET_METRICS_URL: "me:s3cret" },
    { ROAMFLEET_METRICS_TOKEN: "s3cret" },
    { ROAMFLEET_METRICS_URL: "http://a", ROAMFLEET_METRICS_TOKEN: "s3cret\n" },
    { ROAMFLEET_METRICS_REMOTE_WRITE_URL: url, ROAMFLEET_METRICS_REMOTE_WRITE_TOKEN: "token" },
  ])
    assert.throws(
      () => read(wrong),
      (error: unknown) => error instanceof SettingsError && !error.message.includes("s3cret"),
    );
});

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { networkInterfaces, tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { readSettings, SettingsError } from "@roamfleet/server";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { Program } from "../processes/process.ts";

const LIMIT = { timeout: 300_000 };
const TOKEN = "the-admin-token-of-this-test";
const MAIN = "packages/server/src/main.ts";

const LOOPBACK = ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"];
const BEYOND = [
  "0.0.0.0",
  "[::]",
  "192.0.2.1",
  "10.0.0.1",
  "fleet.example.org",
  "127.0.0.1.example.org",
  "localhost.example.org",
  "[fd00::1]",
];

interface Combination {
  host: string;
  tls: "none" | "auto" | "files";
  proxy: boolean;
  token: boolean;
  by: "flags" | "environment";
}

const combinations: Combination[] = [...LOOPBACK, ...BEYOND].flatMap((host) =>
  (["none", "auto", "files"] as const).flatMap((tls) =>
    [false, true].flatMap((proxy) =>
      [false, true].flatMap((token) => (["flags", "environment"] as const).map((by) => ({ host, tls, proxy, token, by }))),
    ),
  ),
);

function settingsOf({ host, tls, proxy, token, by }: Combination): ReturnType<typeof readSettings> {
  const secret = token ? { SERVICE_ADMIN_TOKEN: TOKEN } : {};
  const listen = `${host}:7600`;
  if (by === "environment") {
    return readSettings(
      {},
      {
        ...secret,
        ROAMFLEET_LISTEN: listen,
        ...(tls === "auto" ? { ROAMFLEET_TLS: "auto" } : {}),
        ...(tls === "files" ? { ROAMFLEET_TLS_CERT: "c.pem", ROAMFLEET_TLS_KEY: "k.pem" } : {}),
        ...(proxy ? { ROAMFLEET_BEHIND_PROXY: "10.0.0.0/8" } : {}),
      },
    );
  }
  return readSettings(
    {
      listen,
      ...(tls === "auto" ? { tls } : {}),
      ...(tls === "files" ? { tlsCert: "c.pem", tlsKey: "k.pem" } : {}),
      ...(proxy ? { behindProxy: "10.0.0.0/8" } : {}),
    },
    secret,
  );
}

test("no combination of settings allows plain HTTP beyond loopback without a declared proxy", () => {
  for (const one of combinations) {
    const plain = one.tls === "none" && !one.proxy;
    if (plain && BEYOND.includes(one.host)) assert.throws(() => settingsOf(one), SettingsError, JSON.stringify(one));
    else assert.equal(settingsOf(one).admin_token, one.token ? TOKEN : undefined, JSON.stringify(one));
  }
  // Empty values and values such as yes and true, which unit files may contain, do not declare a proxy or TLS.
  for (const value of ["", "1", "true", "yes", "0.0.0.0/0", "::/0", "proxy"])
    assert.throws(() => readSettings({ listen: "0.0.0.0:1" }, { ROAMFLEET_BEHIND_PROXY: value }), SettingsError, value);
  for (const value of ["", "1", "on"])
    assert.throws(() => readSettings({ listen: "0.0.0.0:1" }, { ROAMFLEET_TLS: value }), SettingsError, value);
});

/** An address of this machine that is not loopback. Connections from this machine to this address also come from this address. */
const machine_address = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === "IPv4" && !one.internal)?.address;

interface Asking {
  address: string;
  headers?: Record<string, string>;
}

/** Returns the status of GET /api/admin/orgs. Does not verify the certificate, which other tests cover. */
function ask(url: URL, { address, headers = {} }: Asking): Promise<number> {
  return new Promise((resolve, reject) => {
    const secure = url.protocol === "https:";
    const options = { host: address, port: url.port, path: "/api/admin/orgs", headers: { host: `localhost:${url.port}`, ...headers } };
    const request = secure ? httpsRequest({ ...options, rejectUnauthorized: false }) : httpRequest(options);
    request.on("response", (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    request.on("error", reject);
    request.end();
  });
}

interface Start {
  host: "127.0.0.1" | "0.0.0.0";
  way: "plain" | "tls" | "proxy";
  token: boolean;
}

const STARTS: Start[] = [
  { host: "0.0.0.0", way: "tls", token: false },
  { host: "0.0.0.0", way: "proxy", token: false },
  { host: "127.0.0.1", way: "plain", token: false },
  { host: "127.0.0.1", way: "tls", token: false },
  { host: "127.0.0.1", way: "proxy", token: false },
  { host: "0.0.0.0", way: "tls", token: true },
  { host: "0.0.0.0", way: "proxy", token: true },
  { host: "127.0.0.1", way: "plain", token: true },
];

/** Checks which requests may use the admin routes: requests from this machine, and requests that may come from elsewhere. */
async function check(url: URL, { host, way, token }: Start): Promise<number> {
  const open = !token && way !== "proxy";
  const name = `${host} ${way} ${token ? "with" : "without"} token`;
  const asked: [what: string, asking: Asking, status: number][] = [
    ["from this machine", { address: "127.0.0.1" }, open ? 200 : token ? 401 : 403],
    ["forwarded", { address: "127.0.0.1", headers: { "x-forwarded-for": "127.0.0.1" } }, token ? 401 : 403],
    ["by another name", { address: "127.0.0.1", headers: { host: "evil.example" } }, token ? 401 : 403],
    ["by a page of another site", { address: "127.0.0.1", headers: { origin: "https://evil.example" } }, token ? 401 : 403],
    ["with the token", { address: "127.0.0.1", headers: { authorization: `Bearer ${TOKEN}` } }, token || open ? 200 : 403],
  ];
  if (host === "0.0.0.0" && machine_address !== undefined) {
    // The proxy of this test has the address 127.0.0.1: requests that bypass it are refused before any processing.
    asked.push(["from beyond loopback", { address: machine_address }, token && way !== "proxy" ? 401 : 403]);
    const headers = { authorization: `Bearer ${TOKEN}` };
    asked.push(["from beyond, with the token", { address: machine_address, headers }, token && way !== "proxy" ? 200 : 403]);
  }
  for (const [what, asking, status] of asked) assert.equal(await ask(url, asking), status, `${name}: ${what}`);
  return asked.length;
}

async function startAndCheck(data: string, start: Start): Promise<number> {
  const ways = { plain: [], tls: ["--tls", "auto"], proxy: ["--behind-proxy", "127.0.0.1"] };
  const program = new Program(
    MAIN,
    ["serve", "--data", data, "--listen", `${start.host}:0`, ...ways[start.way]],
    start.token ? { SERVICE_ADMIN_TOKEN: TOKEN } : {},
  );
  try {
    const text = await program.until("the server to listen", () => /"url":"([^"]+)"[^\n]+"msg":"listening"/.exec(program.output)?.[1]);
    return await check(new URL(text), start);
  } finally {
    await program.stop();
  }
}

async function refuses(t: TestContext, data: string, args: string[], env: Record<string, string>): Promise<void> {
  const program = new Program(MAIN, ["serve", "--data", data, ...args], env);
  t.after(() => program.running && program.kill());
  const { code } = await program.ended;
  assert.deepEqual([code, /without TLS|--behind-proxy/.test(program.output)], [2, true], program.output);
}

test("real servers refuse plain HTTP beyond loopback, and open administration to local requests only", LIMIT, async (t) => {
  const data = mkdtempSync(path.join(tmpdir(), "roamfleet-boot-"));
  t.after(() => rmSync(data, { recursive: true, force: true }));
  const refusals: [string[], Record<string, string>][] = [
    [["--listen", "0.0.0.0:0"], {}],
    [[], { ROAMFLEET_LISTEN: "0.0.0.0:0", SERVICE_ADMIN_TOKEN: TOKEN }],
    [["--listen", "[::]:0"], { NODE_ENV: "development" }],
    [["--listen", `${machine_address ?? "192.0.2.1"}:0`], { ROAMFLEET_BEHIND_PROXY: "1" }],
  ];
  for (const [args, env] of refusals) await refuses(t, data, args, env);
  const starts = STARTS.slice(0, promiseSize({ test: 3, full: STARTS.length }));
  let requests = 0;
  for (const start of starts) requests += await startAndCheck(data, start);
  provePromise(
    t,
    6,
    `${combinations.length} combinations of bind, TLS, proxy, token and environment read; ${refusals.length} real servers refused to start, ` +
      `${starts.length} started and answered ${requests} admin requests as they should; ` +
      (machine_address === undefined ? "this machine has no address but loopback" : "0 let in from beyond loopback"),
  );
});

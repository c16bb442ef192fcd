import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { createClient } from "@roamfleet/sdk";
import { createTestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { ROBOT_BACK_MS } from "../harness/deadlines.ts";
import { NatsAndS3 } from "../harness/nats-and-s3.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { rowsOf } from "../processes/database-rows.ts";
import { ROOT } from "../processes/process.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";

const ADMIN = "the-admin-token-of-the-balancer";
const WORKERS = 3;
const haproxy = [...(process.env.PATH ?? "").split(":"), "/usr/sbin"]
  .map((directory) => path.join(directory, "haproxy"))
  .find((file) => existsSync(file));
const skip = haproxy === undefined ? "haproxy is not installed (apt-get install haproxy)" : SKIP_NATS;

/** HAProxy with the configuration of deploy/compose, in front of servers at other addresses. */
class HaProxy implements AsyncDisposable {
  readonly url: string;
  readonly ca: string;
  readonly #directory: string;
  readonly #process: ChildProcess;
  output = "";

  private constructor(directory: string, port: number) {
    this.#directory = directory;
    this.url = `https://localhost:${port}`;
    this.ca = readFileSync(path.join(directory, "certificate"), "utf8");
    this.#process = spawn(haproxy ?? "", ["-db", "-f", path.join(directory, "haproxy.cfg")], { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#process.stdout, this.#process.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => (this.output += text));
  }

  /** Whether HAProxy sends requests to the server, according to its log. */
  uses(name: string): boolean {
    return this.output.lastIndexOf(`${name} is UP`) >= this.output.lastIndexOf(`${name} is DOWN`);
  }

  static async start(servers: readonly string[]): Promise<HaProxy> {
    const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-haproxy-"));
    const [key, certificate, both] = ["key", "certificate", "both"].map((name) => path.join(directory, name)) as [string, string, string];
    const names = "-subj /CN=localhost -addext subjectAltName=DNS:localhost";
    const words = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 ${names} -keyout ${key} -out ${certificate}`;
    const made = spawnSync("openssl", words.split(" "), { encoding: "utf8", timeout: 30_000 });
    assert.equal(made.status, 0, made.stderr);
    writeFileSync(both, readFileSync(certificate, "utf8") + readFileSync(key, "utf8"));
    const port = await freePort();
    const places: [string, string][] = [
      ["bind :8443", `bind 127.0.0.1:${port}`],
      ["bind :8080", `bind 127.0.0.1:${await freePort()}`],
      ["/run/secrets/certificate.pem", both],
      // The number of connections that the limit of open files on this machine allows.
      ["maxconn 50000", "maxconn 200"],
      ...servers.map((url, index): [string, string] => [` server-${index + 1}:7600`, ` ${new URL(url).host}`]),
    ];
    let text = readFileSync(path.join(ROOT, "deploy/compose/haproxy.cfg"), "utf8");
    for (const [from, to] of places) {
      assert.ok(text.includes(from), from);
      text = text.replace(from, to);
    }
    writeFileSync(path.join(directory, "haproxy.cfg"), text);
    return new HaProxy(directory, port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL");
    if (this.#process.exitCode === null && this.#process.signalCode === null) await once(this.#process, "exit");
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

test("restarting servers one by one behind HAProxy loses or repeats no request", { timeout: 300_000, skip }, async (t) => {
  await using shared = await NatsAndS3.start();
  await using database = await createTestDatabase({ empty: true });
  const options = {
    args: [
      "--behind-proxy",
      "127.0.0.1",
      "--limit",
      "drain_seconds=5",
      "--limit",
      "token_requests_per_minute=1000000",
      "--limit",
      "token_burst=1000000",
    ],
    env: { ...shared.env, DATABASE_URL: databaseUrl(database.connection), SERVICE_ADMIN_TOKEN: ADMIN },
  };
  await using first = await ServerProcess.start(options);
  await using second = await ServerProcess.start(options);
  await using balancer = await HaProxy.start([first.url, second.url]);
  const address = { base_url: balancer.url, ca: balancer.ca };
  await until("the balancer", async () => (await createClient(address).getReadyz()).status === "ready", { despite_errors: true });
  const admin = createClient({ ...address, admin_token: ADMIN });
  const org = (await admin.createOrg({ body: { name: "Balanced" } })).data.id;
  const token = (await admin.approveOrg({ params: { id: org } })).data.token ?? assert.fail("no token");
  let retries = 0;
  const api = createClient({ ...address, token, on_retry: () => (retries += 1) });
  const site_id = (await api.createSite({ body: { name: "Hall" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const key = (await api.createEnrollmentKey({ body: { site_id, fleet_id, max_uses: 1 } })).data.key ?? assert.fail("no key");
  const ca_file = mkdtempSync(path.join(tmpdir(), "roamfleet-ca-"));
  t.after(() => rmSync(ca_file, { recursive: true, force: true }));
  writeFileSync(path.join(ca_file, "ca.pem"), balancer.ca);
  const args = ["--ca-file", path.join(ca_file, "ca.pem")];
  await using agent = new AgentProcess({ url: balancer.url, key, name: "cart-1", args });
  const online = async (): Promise<boolean> => (await api.listRobots()).items[0]?.status === "online";
  await until("the robot", online, { detail: () => agent.program.output });

  let over = false;
  const made: string[] = [];
  const working = Array.from({ length: WORKERS }, async (_, worker) => {
    for (let n = 0; !over; n += 1) {
      await api.getOrg();
      made.push((await api.createSite({ body: { name: `Site ${worker}-${n}` }, idempotency_key: randomUUID() })).data.id);
    }
  });
  for (const [name, server] of Object.entries({ "server-1": first, "server-2": second })) {
    const calls = made.length;
    await until("some calls before", () => made.length > calls + 10);
    assert.equal(await server.program.stop(), 0);
    const stopped = made.length;
    await until("some calls without it", () => made.length > stopped + 10);
    await server.restart();
    await until("the balancer to have it again", () => balancer.uses(name));
  }
  over = true;
  await Promise.all(working);
  await until("the robot again", online, { deadline_ms: ROBOT_BACK_MS });
  t.diagnostic(`${made.length * 2} calls, ${retries} of them repeated`);
  assert.equal(new Set(made).size, made.length);
  assert.equal((await rowsOf(database.connection))["public.site"]?.length, made.length + 1);
  const [answer] = (await once(get(`${balancer.url}/healthz?token=of-a-websocket`, { ca: balancer.ca, agent: false }), "response")) as [
    IncomingMessage,
  ];
  answer.destroy();
  await until("it to be in the log", () => balancer.output.includes("GET /healthz"));
  assert.doesNotMatch(balancer.output, /of-a-websocket/);
});

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import path from "node:path";
import { after, test } from "node:test";
import { type Route, routes } from "@roamfleet/protocol/routes";
import { parse } from "yaml";
import { makeThings, sampleRequest } from "../authorization/sample-requests.ts";
import { ADMIN_TOKEN } from "../harness/index.ts";
import { isAtLeast } from "../harness/log-level.ts";
import { ROOT } from "../processes/process.ts";
import { documentOf, RfHome } from "../processes/rf.ts";
import { sharedPlane } from "../spec/spec-plane.ts";
import { HOSTILE_TEXTS, IMPOSSIBLE_TEXTS } from "./arbitraries.ts";
import { textFields } from "./text-fields.ts";

const LIMIT = { timeout: 300_000 };
/** Characters that control a terminal or end a line, except the newline. */
const ACTS = /[^\P{Cc}\n]|[\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;
/** Color codes, which rf itself prints. */
const COLORS = /\p{Cc}\[\d+(;\d+)*m/gu;
const AT_ONCE = 3;
/** Fields that the kind of the sample requires, although its schema does not. */
const ALSO: Record<string, object> = { createChannel: { url: "https://hooks.example.org/" } };

const plane = await sharedPlane({ limits: { org_requests_per_hour: 1_000_000 } });
const things = await makeThings(plane.default_org, plane.clock.now());
things.enrollment_key = await plane.enrollmentKey({ max_uses: 0 });
const { robot } = things;
const home = await RfHome.make();
after(() => home[Symbol.asyncDispose]());
const env = { ROAMFLEET_TOKEN: plane.default_org.admin_token, ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_ADMIN_TOKEN: ADMIN_TOKEN };

interface Answered {
  status: number;
  data: unknown;
  message: string;
}

let sent = 0;

async function send(route: Route, at: string, body: unknown): Promise<Answered> {
  sent += 1;
  const response = await plane.fetch(plane.url + at, {
    method: route.method,
    headers: {
      "content-type": "application/json",
      // This is the only header that the server stores. HTTP allows only Latin-1 in it.
      "user-agent": "evil\u009b31m\u0085line",
      ...(route.idempotency === "required" ? { "idempotency-key": crypto.randomUUID() } : {}),
      ...(route.access === "service_admin"
        ? { "x-service-admin-token": ADMIN_TOKEN }
        : { authorization: `Bearer ${plane.default_org.admin_token}` }),
    },
    body: JSON.stringify(body),
  });
  const { data, error } = (await response.json()) as { data?: unknown; error?: { message: string } };
  return { status: response.status, data, message: error?.message ?? "" };
}

const body_routes = (Object.values(routes) as Route[]).filter(({ body }) => body !== undefined);

test("text in any field is returned unchanged, or refused with the name of the field", LIMIT, async (t) => {
  const kept = new Set<string>();
  for (const route of body_routes) {
    for (const field of textFields(route.body!)) {
      const shown = `${route.name} ${field.path.join(".")}`;
      for (const [at, text] of [...HOSTILE_TEXTS, ...IMPOSSIBLE_TEXTS].entries()) {
        const request = sampleRequest(route, things);
        const { status, data, message } = await send(route, request.path, field.set({ ...ALSO[route.name], ...request.body }, text));
        const what = `${shown} with ${JSON.stringify(text)}: ${status} ${message}`;
        assert.doesNotMatch(message, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u, what);
        if (at >= HOSTILE_TEXTS.length) assert.equal(status, 400, what);
        if (status === 400) assert.ok(message.includes(field.path[0]!), what);
        // These requests fail because the key is unknown or the name is taken.
        else if (status >= 300) assert.ok([401, 409].includes(status), what);
        else if (field.get(data) !== undefined && !(route.secret_fields ?? []).includes(field.path[0]!)) {
          assert.equal(field.get(data), text, what);
          kept.add(shown);
        }
      }
    }
  }
  t.diagnostic(`${sent} requests; stored and returned by ${[...kept].join(", ")}`);
  assert.ok(kept.size >= 12, [...kept].join(", "));
});

test("text from a robot is returned unchanged, except for characters that the database cannot store", LIMIT, async () => {
  for (const text of HOSTILE_TEXTS) {
    const name = text.slice(0, 200) || "-";
    robot.log(text, { source: name, fields: { [name]: text, deep: [{ [name]: text }] } });
    robot.report({ kind: "config", namespace: name, version: 1, sha256: "0".repeat(64) });
  }
  for (const text of IMPOSSIBLE_TEXTS) robot.log(text, { fields: { [text]: text } });
  const texts = HOSTILE_TEXTS.map((text) => text.slice(0, 200) || "-");
  robot.sendHealth({
    checks: texts.map((name) => ({ name, status: "warn" as const, message: name })),
    workloads: texts.map((name) => ({ app: name, kind: name, status: name, restarts: 0, release_tag: name })),
    disks: texts.map((mount) => ({ mount, used_bytes: 1, total_bytes: 2 })),
    network: texts.map((name) => ({ name, rx_bytes: 0, tx_bytes: 0, addresses: [name.slice(0, 100)] })),
    ros: { distro: texts[0]!, adapter: texts[1]!, nodes: texts, topics: texts },
    ros_adapters: texts.slice(0, 16).map((name) => ({ name, state: "lost" as const, distro: name, reason: name })),
    metrics: Object.fromEntries(texts.map((name) => [name, 1])),
  });
  // The reason and message of a failed installation are in events and the timeline.
  for (const reason of texts.slice(0, 5).map((text) => text.slice(0, 80))) {
    const release = await plane.release({ kind: "file" });
    robot.behave({ failure: { at: "installing", reason } }, release.id);
    const { id } = await plane.deploy(release, { robot_id: robot.id }, { rollout: { verify_seconds: 0 } });
    await plane.until("the deployment to end", async () => (await plane.deployment(id)).finished_at !== null);
  }
  const logs = await plane.until("the log to be stored", async () => {
    const { items } = await plane.api.listRobotLogs({ params: { id: robot.id }, query: { limit: 1_000 } });
    return items.length >= HOSTILE_TEXTS.length + IMPOSSIBLE_TEXTS.length && items;
  });
  const messages = new Set(logs.map(({ message }) => message));
  for (const text of HOSTILE_TEXTS) assert.ok(messages.has(text), JSON.stringify(text));
  for (const text of IMPOSSIBLE_TEXTS) assert.ok(messages.has(text.toWellFormed().replaceAll("\0", "\ufffd")), JSON.stringify(text));
  const { checks, workloads } = (await plane.api.getRobotHealth({ params: { id: robot.id } })).data;
  assert.deepEqual([checks.map(({ name }) => name), workloads.map(({ app }) => app)], [texts, texts]);
});

/** Commands that print a list, one line for each record. */
const LISTS = [
  ["sites", "list"],
  ["fleets", "list"],
  ["robots", "list"],
  ["robots", "timeline", robot.id],
  ["robots", "logs", robot.id],
  ["fleets", "logs", things.ids.fleet_id!],
  ["keys", "list"],
  ["tokens", "list"],
  ["users", "list"],
  ["configs", "list"],
  ["configs", "deployments"],
  ["deployments", "list"],
  ["releases", "list"],
  ["orgs", "list"],
  ["audit", "--limit", "1000"],
];
/** Commands that print one object. */
const DETAILS = [
  ["robots", "show", robot.id],
  ["robots", "inspect", robot.id],
  ["releases", "show", things.ids.release!],
  ["deployments", "show", things.ids["/api/deployments"]!],
  ["tokens", "show", things.ids["/api/tokens"]!],
  ["users", "show", things.ids.user_id!],
  ["org", "show"],
  ["orgs", "show", plane.default_org.id],
  ["whoami"],
  ["sites", "create", "two\u001b[2J\nlines"],
  ["robots", "show", "rob_\u001b[2J\nnone"],
];

/** Runs a command and returns stdout. Fails if stdout or stderr contains control characters. */
async function visible(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await home.run(args, { env });
  const what = `rf ${args.join(" ")}`;
  assert.ok(!/\b(40[13]|50\d)\b.*error/.test(stderr), `${what}: ${stderr}`);
  for (const stream of [stdout, stderr]) {
    const found = ACTS.exec(stream);
    assert.equal(
      found,
      null,
      `${what} printed ${JSON.stringify(found?.[0])} in …${JSON.stringify(stream.slice(found?.index ?? 0).slice(0, 60))}`,
    );
  }
  assert.ok(code === 0 || /show,rob_|create/.test(args.join(",")), `${what} ended with ${code}: ${stderr}`);
  return stdout;
}

/** Runs `work` on all items, a few concurrently. */
async function eachOf<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const waiting = all.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const one of waiting) await work(one);
    }),
  );
}

test("rf prints each record of a list as one line without control characters", LIMIT, async () => {
  // Deployments of earlier tests may still be running.
  await plane.settle();
  await eachOf(LISTS, async (args) => {
    const what = args.join(" ");
    const json = await visible("--json", ...args);
    const document = documentOf({ code: 0, stdout: json, stderr: "" }) as { items: unknown[] };
    assert.ok(document.items.length > 0, `${what} lists something`);
    const heads = args.includes("logs") ? 0 : 1;
    const lines = (await visible("-o", "wide", ...args)).trimEnd().split("\n");
    // The audit also contains requests that were refused in the meantime.
    const missing = document.items.length + heads - lines.length;
    assert.ok(args[0] === "audit" ? missing <= 0 : missing === 0, `${what}: ${lines.length} lines\n${lines.slice(0, 40).join("\n")}`);
    const yaml = parse(await visible("-o", "yaml", ...args)) as { items: unknown[] };
    assert.ok(yaml.items.length >= document.items.length, what);
    if (args[0] !== "audit") assert.deepEqual(without(yaml), without(document), what);
  });
});

/** Returns the document without times that change between two calls. */
const without = (document: unknown): unknown =>
  JSON.parse(JSON.stringify(document, (key, value: unknown) => (/^(last_\w+_at|updated_at)$/.test(key) ? null : value)));

test("rf prints objects and errors without control characters", LIMIT, () =>
  eachOf(DETAILS, async (args) => {
    for (const format of ["wide", "yaml"]) await visible("-o", format, ...args);
  }),
);

test("the NDJSON export of the audit log has one line per entry, even if Unicode line breaks count", LIMIT, async () => {
  const exported = await home.run(["audit", "--export"], { env });
  const lines = exported.stdout.trimEnd().split(/\r\n|[\n\v\f\r\u0085\p{Zl}\p{Zp}]/u);
  const entries = lines.map((line) => JSON.parse(line) as { id: string; user_agent: string | null });
  assert.ok(entries.length > 100);
  assert.equal(new Set(entries.map(({ id }) => id)).size, entries.length);
  assert.ok(entries.some(({ user_agent }) => user_agent === "evil\u009b31m\u0085line"));
});

/** Runs `rf` on a terminal of util-linux's script(1). */
async function onTerminal(args: readonly string[]): Promise<string> {
  const words = [process.execPath, path.join(ROOT, "packages/cli/src/main.ts"), ...args].map((word) => `'${word}'`).join(" ");
  const child = spawn("script", ["--quiet", "--return", "--command", `stty cols 200 rows 50; ${words}`, "/dev/null"], {
    env: { PATH: process.env.PATH!, TERM: "xterm", XDG_CONFIG_HOME: home.directory, PAGER: "cat", ...env },
    stdio: ["ignore", "pipe", "inherit"],
    timeout: 60_000,
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => (text += part));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => resolve(text));
  });
}

test("rf prints no control sequences except colors on a terminal", LIMIT, () =>
  eachOf(
    [
      ["robots", "list"],
      ["robots", "timeline", robot.id],
      ["robots", "logs", robot.id],
      ["robots", "inspect", robot.id],
      ["audit", "-o", "wide"],
      ["audit", "--export"],
      ["--json", "sites", "list"],
      ["-o", "yaml", "configs", "list"],
      ["api", "GET", "/api/sites"],
    ],
    async (args) => {
      const text = await onTerminal(args);
      assert.ok(text.length > 100, `rf ${args.join(" ")}: ${text}`);
      const found = ACTS.exec(text.replaceAll("\r\n", "\n").replace(COLORS, ""));
      assert.equal(found, null, `rf ${args.join(" ")} printed ${JSON.stringify(found?.[0])}`);
    },
  ),
);

test("messages in the server's log contain no text of clients", () => {
  const hostile = plane.logged.filter(({ msg }) => typeof msg !== "string" || !/^[\x20-\x7e’]+$/.test(msg));
  assert.deepEqual(hostile, []);
  assert.deepEqual(
    plane.logged.filter((line) => isAtLeast("error", line)),
    [],
  );
});

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import packageJson from "../../packages/server/package.json" with { type: "json" };
import { runCommand } from "../processes/server-command.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 240_000 };

interface Report {
  problems: number;
  warnings: number;
  findings: { check: string; status: string; seen: string; hint?: string }[];
}

async function temporary(t: TestContext): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-checked-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return path.join(directory, "data");
}

async function askDoctor(args: readonly string[], env: Record<string, string> = {}): Promise<{ code: number | null; report: Report }> {
  const { code, output } = await runCommand(["doctor", "--json", "--timeout", "60s", ...args], env);
  return { code, report: JSON.parse(output) as Report };
}

test("doctor finds no problem of a running server, and reports it as running", LIMIT, async () => {
  await using server = await ServerProcess.start({ nodes: 1, args: ["--tls", "auto"] });
  const { code, report } = await askDoctor(["--data", server.data, "--listen", new URL(server.url).host, "--tls", "auto"]);
  const failed = report.findings.filter(({ status }) => status === "problem");
  assert.deepEqual([code, report.problems, failed], [0, 0, []]);
  const seen = (check: string): string => report.findings.flatMap((one) => (one.check === check ? [one.seen] : [])).join("\n");
  assert.match(seen("data directory"), /a server is using this directory/);
  assert.match(seen("address"), /a Roamfleet server already listens at 127\.0\.0\.1:\d+/);
  assert.match(seen("TLS"), /the server's own certificate authority, valid for \d+ days/);
  assert.match(seen("database"), /^embedded, PostgreSQL \d+/);
  assert.equal(seen("migrations"), "up to date");

  const id = readFileSync(path.join(server.data, "node-id"), "utf8").trim();
  const { output } = await runCommand(["nodes", "--data", server.data]);
  assert.match(
    output,
    new RegExp(`^ID +VERSION +ADDRESS +ROBOTS +STARTED +STATE\\n${id} +${packageJson.version} +- +0 +[0-9T:Z-]+ +(alive|silent)\\n$`),
  );
  // On a busy machine the first heartbeat may be late.
  await until("the server is seen alive", async () => {
    const [node] = JSON.parse((await runCommand(["nodes", "--json", "--data", server.data])).output) as { id: string; is_alive: boolean }[];
    return node?.id === id && node.is_alive;
  });
});

test("doctor exits with 1 for problems and 2 for usage errors, and prints no password", LIMIT, async (t) => {
  const data = await temporary(t);
  const env = { DATABASE_URL: "postgres://fleet:geheim-1@127.0.0.1:1/x", ROAMFLEET_BUS_URL: "nats://fleet:geheim-2@127.0.0.1:1" };
  const secrets = { SERVICE_ADMIN_TOKEN: "geheim-3-and-long-enough", ROAMFLEET_SECRETS_KEY: "geheim-4" };
  const { code, report } = await askDoctor(["--data", data, "--listen", "127.0.0.1:0"], { ...env, ...secrets });
  assert.equal(code, 1);
  assert.deepEqual(
    report.findings.filter(({ status }) => status === "problem").map(({ check }) => check),
    ["database", "secrets key", "bus"],
  );
  const lines = await runCommand(["doctor", "--timeout", "60s", "--data", data, "--listen", "127.0.0.1:0"], { ...env, ...secrets });
  assert.equal(lines.code, 1);
  assert.match(lines.output, /\n3 problems, \d+ warnings?\n$/);
  assert.ok(!`${lines.output}${JSON.stringify(report)}`.includes("geheim"));
  assert.ok(!lines.output.includes("\u001b"), "colors are for terminals");
  const wrong = [["--timeout", "soon"], ["--nonsense"], ["--listen"]].map((args) => runCommand(["doctor", ...args]));
  assert.deepEqual(
    (await Promise.all(wrong)).map((one) => one.code),
    [2, 2, 2],
  );
  const help = await runCommand(["doctor", "--help"]);
  assert.equal(help.code, 0);
  assert.match(help.output, /leaves no changes/);
});

test("a server that fails to start recommends the command doctor", LIMIT, async (t) => {
  const data = await temporary(t);
  const refused = await runCommand(["serve", "--data", data, "--listen", "0.0.0.0:0"]);
  assert.equal(refused.code, 2);
  assert.match(refused.output, /\nroamfleet: for details, run roamfleet doctor with the same flags and environment\n$/);
  const away = await runCommand(["serve", "--data", data, "--listen", "127.0.0.1:0"], {
    DATABASE_URL: "postgres://fleet:geheim@127.0.0.1:1/x",
  });
  assert.equal(away.code, 1);
  assert.match(
    away.output,
    /^roamfleet: the database cannot be reached: connect ECONNREFUSED 127\.0\.0\.1:1\nroamfleet: for details, run roamfleet doctor/m,
  );
  assert.ok(!away.output.includes("geheim"));
  assert.ok(!(await runCommand(["fingerprint", "--data", data])).output.includes("doctor"));
});

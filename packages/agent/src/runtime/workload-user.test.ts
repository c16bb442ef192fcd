import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { statePaths } from "./paths.ts";
import { findWorkloadUser, openStateTo } from "./workload-user.ts";

const skip = process.getuid?.() === 0 ? false : "only root can start programs as another user";

test("finds an existing user, and names a missing one in the error", { skip }, async () => {
  const { name, uid, home } = await findWorkloadUser("daemon");
  assert.deepEqual([name, uid, home], ["daemon", 1, "/usr/sbin"]);
  await assert.rejects(findWorkloadUser("missing"), /this robot has no user missing/);
});

test("runs commands with the user's groups by setpriv, and without setpriv if the agent runs as that user", { skip }, async () => {
  assert.deepEqual((await findWorkloadUser("root")).become, []);
  const [program, ...words] = (await findWorkloadUser("daemon")).become;
  assert.deepEqual([path.basename(program ?? ""), ...words], ["setpriv", "--reuid=1", "--regid=1", "--init-groups", "--"]);
});

test(
  "gives only the user's group access to an app's versions and the configs, and writes nothing if the group already has access",
  { skip },
  async (t) => {
    const paths = statePaths(path.join(temporaryDirectory(t), "state"));
    fs.mkdirSync(paths.versions("main"), { recursive: true, mode: 0o700 });
    fs.mkdirSync(paths.configs, { mode: 0o700 });
    fs.writeFileSync(paths.config("nav"), "{}", { mode: 0o600 });
    const opened = [paths.root, paths.apps, paths.app("main"), paths.versions("main"), paths.configs, paths.config("nav")];
    const look = () => opened.map((place) => fs.statSync(place));
    const user = await findWorkloadUser("daemon");
    openStateTo(user, paths, "main");
    const first = look();
    assert.deepEqual(
      first.map(({ mode, gid }) => `${(mode & 0o7777).toString(8)} ${gid}`),
      ["710 1", "710 1", "710 1", "710 1", "2750 1", "640 1"],
    );
    openStateTo(user, paths, "main");
    assert.deepEqual(
      look().map(({ ctimeMs }) => ctimeMs),
      first.map(({ ctimeMs }) => ctimeMs),
    );
  },
);

test("all users may enter the state directory if its group is that of the agent's socket", { skip }, async (t) => {
  const paths = statePaths(path.join(temporaryDirectory(t), "state"));
  fs.mkdirSync(paths.versions("main"), { recursive: true, mode: 0o700 });
  fs.chownSync(paths.root, 0, 2);
  fs.chmodSync(paths.root, 0o710);
  openStateTo(await findWorkloadUser("daemon"), paths, "main");
  const { mode, gid } = fs.statSync(paths.root);
  assert.deepEqual([(mode & 0o7777).toString(8), gid], ["711", 2]);
});

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { statePaths } from "./paths.ts";
import { commandAs, findWorkloadUser, homeOf, openStateTo } from "./workload-user.ts";

const skip = process.getuid?.() === 0 ? false : "only root can start programs as another user";

test("finds a user of this robot, and names one that does not exist", { skip }, () => {
  const { name, uid, home } = findWorkloadUser("daemon");
  assert.deepEqual([name, uid, home], ["daemon", 1, "/usr/sbin"]);
  assert.deepEqual(homeOf("daemon"), { HOME: "/usr/sbin", USER: "daemon", LOGNAME: "daemon" });
  assert.throws(() => findWorkloadUser("missing"), /this robot has no user missing/);
  assert.deepEqual(homeOf("missing"), {});
});

test("runs a command as the user with its groups, or unchanged without a user", { skip }, () => {
  assert.deepEqual(commandAs(undefined, ["id"]), ["id"]);
  assert.deepEqual(commandAs(findWorkloadUser("root"), ["id"]), ["id"]);
  const [program, ...words] = commandAs(findWorkloadUser("daemon"), ["id", "-un"]);
  assert.deepEqual(
    [path.basename(program ?? ""), ...words],
    ["setpriv", "--reuid=daemon", "--regid=1", "--init-groups", "--", "id", "-un"],
  );
});

test("opens the way to an app's versions and the configs to the user's group, and changes nothing twice", { skip }, (t) => {
  const paths = statePaths(path.join(temporaryDirectory(t), "state"));
  fs.mkdirSync(paths.versions("main"), { recursive: true, mode: 0o700 });
  fs.mkdirSync(paths.configs, { mode: 0o700 });
  fs.writeFileSync(paths.config("nav"), "{}", { mode: 0o600 });
  const opened = [paths.root, paths.apps, paths.app("main"), paths.versions("main"), paths.configs, paths.config("nav")];
  const look = () => opened.map((place) => fs.statSync(place));
  openStateTo(findWorkloadUser("daemon"), paths, "main");
  const first = look();
  assert.deepEqual(
    first.map(({ mode, gid }) => [(mode & 0o7777).toString(8), gid]),
    [
      ["711", 0],
      ["711", 0],
      ["711", 0],
      ["711", 0],
      ["2750", 1],
      ["640", 1],
    ],
  );
  openStateTo(findWorkloadUser("daemon"), paths, "main");
  assert.deepEqual(
    look().map(({ ctimeMs }) => ctimeMs),
    first.map(({ ctimeMs }) => ctimeMs),
  );
});

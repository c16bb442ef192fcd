import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { test } from "node:test";
import type { RunAs } from "../../runtime/users.ts";

/** A uid without a passwd entry, as in a container that was started with a number. */
const NOBODYS_UID = "54321";

test(
  "a shell user without a passwd entry gets $HOME or the root directory as home",
  { timeout: 120_000, skip: process.getuid?.() !== 0 && "needs root" },
  () => {
    const script = `
      const { findShellUser } = await import(${JSON.stringify(path.join(import.meta.dirname, "shell-user.ts"))});
      console.log(JSON.stringify([await findShellUser(undefined, { environment: { HOME: "/srv/robot" } }), await findShellUser(undefined)]));`;
    const become = [`--reuid=${NOBODYS_UID}`, `--regid=${NOBODYS_UID}`, "--clear-groups", "--"];
    const output = execFileSync("setpriv", [...become, process.execPath, "--input-type=module", "-e", script], {
      cwd: "/",
      encoding: "utf8",
    });
    const users = JSON.parse(output) as RunAs[];
    assert.deepEqual(
      users.map(({ name, gid, home }) => [name, gid, home]),
      [
        [NOBODYS_UID, Number(NOBODYS_UID), "/srv/robot"],
        [NOBODYS_UID, Number(NOBODYS_UID), "/"],
      ],
    );
  },
);

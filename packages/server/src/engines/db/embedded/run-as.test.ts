import assert from "node:assert/strict";
import { chmod, mkdir, stat } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";
import { withClient } from "../with-client.ts";
import { chooseRunAs } from "./run-as.ts";
import { run } from "./run.ts";
import { copyDatabase, scratch, startOn } from "./testing/scratch.ts";

const TIMEOUT = 120_000;
const isRoot = process.getuid?.() === 0;
const needsRoot = isRoot ? false : "only root can change users";
const needsNamespaces =
  !isRoot || (await run("unshare", ["--user", "--map-user=1000", "true"])).code === 0 ? false : "user namespaces are disabled here";
const NOBODY = 65534;
const needsReach =
  !isRoot || (await run("/bin/sh", ["-c", 'cd -- "$0"', import.meta.dirname], { cwd: "/", uid: NOBODY, gid: NOBODY })).code === 0
    ? false
    : "no other user reaches this checkout";

describe("the account that PostgreSQL runs as", () => {
  test(
    "starts a database below a private home directory, with files owned by the starting user",
    { skip: needsNamespaces, timeout: TIMEOUT },
    async () => {
      await using place = await scratch();
      const home = path.join(place.root, "home");
      await mkdir(home, { mode: 0o700 });
      const directory = path.join(home, "data", "postgres");
      const embedded = await startOn(directory);
      await withClient(embedded.connection, (client) => client.query("create table t as select 1"));
      await embedded.stop();
      assert.equal((await stat(path.join(directory, "PG_VERSION"))).uid, process.getuid?.());
      await (await startOn(directory)).stop();
    },
  );

  test(
    "root starts PostgreSQL as an unprivileged account if user namespaces are unavailable",
    { skip: needsRoot || needsReach, timeout: TIMEOUT },
    async () => {
      await using place = await scratch();
      await chmod(place.root, 0o755);
      const directory = path.join(place.root, "data", "postgres");
      const embedded = await startOn(directory, { userNamespaces: false });
      const owner = (await stat(path.join(directory, "PG_VERSION"))).uid;
      assert.notEqual(owner, 0);
      assert.equal((await stat(`/proc/${embedded.pid}`)).uid, owner);
      await withClient(embedded.connection, (client) => client.query("create table t as select 1"));
      await embedded.stop();
    },
  );

  test(
    "refuses a directory that the unprivileged account cannot reach, and states what to do",
    { skip: needsRoot, timeout: TIMEOUT },
    async () => {
      await using place = await scratch();
      await assert.rejects(startOn(place.database, { userNamespaces: false }), {
        name: "Refusal",
        message: /user namespaces are disabled here, and user \d+ cannot reach .* start the server as a user other than root/,
      });
    },
  );

  test(
    "changes the owner of root's database when user namespaces become unavailable",
    { skip: needsRoot || needsReach || needsNamespaces, timeout: TIMEOUT },
    async () => {
      await using place = await scratch();
      await chmod(place.root, 0o755);
      await (await startOn(place.database)).stop();
      const embedded = await startOn(place.database, { userNamespaces: false });
      await embedded.stop();
      assert.notEqual((await stat(path.join(place.database, "PG_VERSION"))).uid, 0);
    },
  );

  test("root runs another user's database as that user", { skip: needsRoot || needsReach, timeout: TIMEOUT }, async () => {
    await using place = await scratch();
    await chmod(place.root, 0o755);
    await (await startOn(place.database)).stop();
    const owned_by_other = path.join(place.root, "other-users");
    await copyDatabase(place.database, owned_by_other);
    await run("chown", ["-R", `${NOBODY}:${NOBODY}`, owned_by_other]);
    const embedded = await startOn(owned_by_other);
    assert.equal((await stat(`/proc/${embedded.pid}`)).uid, NOBODY);
    await embedded.stop();
    assert.equal((await stat(path.join(owned_by_other, "global", "pg_control"))).uid, NOBODY);
  });

  test("refuses to start another user's database as a plain user", { skip: isRoot ? "root may use every directory" : false }, async () => {
    await assert.rejects(chooseRunAs("/etc", "/bin", true), {
      name: "Refusal",
      message: /belongs to user 0 and this server runs as user \d+/,
    });
  });
});

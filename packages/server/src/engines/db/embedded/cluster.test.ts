import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, lstat, mkdir, readdir, readlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { withClient } from "../with-client.ts";
import { endServer, holdServer, scratch, spawnServer, startOn } from "./testing/scratch.ts";

const TIMEOUT = 120_000;
const ATTEMPTS_MAX = 10;

const halfMade = async (root: string): Promise<string | undefined> =>
  (await readdir(root)).find((name) => name.startsWith("postgres.init-"));

/** Returns a place whose server was killed while initdb was writing. Retries if initdb finished before the kill. */
async function killedInInitdb(): Promise<Awaited<ReturnType<typeof scratch>>> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
    const place = await scratch();
    const server = spawnServer(place.database);
    await until("initdb to write", async () => {
      const name = await halfMade(place.root);
      if (name === undefined) return (await readdir(place.root)).includes("postgres");
      return existsSync(path.join(place.root, name, "PG_VERSION"));
    });
    await endServer(server, "SIGKILL");
    if ((await halfMade(place.root)) !== undefined) return place;
    await place[Symbol.asyncDispose]();
  }
  return assert.fail(`initdb was done before the kill, ${ATTEMPTS_MAX} times`);
}

describe("directory of the embedded database", () => {
  test("creates a complete database at the next start after a kill during initdb", { timeout: TIMEOUT }, async () => {
    await using place = await killedInInitdb();
    assert.ok(!(await readdir(place.root)).includes("postgres"));
    const embedded = await startOn(place.database);
    await withClient(embedded.connection, (client) => client.query("select 1"));
    await embedded.stop();
    await until("the incomplete directory is gone", async () => {
      if ((await halfMade(place.root)) === undefined) return true;
      await (await startOn(place.database)).stop();
      return false;
    });
  });

  test("puts the socket into a private directory elsewhere if the database path is too long", { timeout: TIMEOUT }, async () => {
    await using place = await scratch();
    const directory = path.join(place.root, `a "quoted", long ${"n".repeat(90)}`, "postgres");
    const first = await holdServer(directory);
    const socket = first.connection.host;
    assert.equal(await readlink(`${directory}.run`), socket);
    assert.equal((await lstat(socket)).mode & 0o777, 0o700);
    await endServer(first, "SIGKILL");

    const second = await startOn(directory);
    assert.deepEqual({ adopted: second.adopted, host: second.connection.host }, { adopted: true, host: socket });
    await second.stop();
    await assert.rejects(lstat(socket), { code: "ENOENT" });
    await assert.rejects(lstat(`${directory}.run`), { code: "ENOENT" });
  });

  test(
    "puts the socket beside the database if the path is short enough, even with commas and quotes in it",
    { timeout: TIMEOUT },
    async () => {
      await using place = await scratch();
      const directory = path.join(place.root, `a,"b" c`, "postgres");
      const embedded = await startOn(directory);
      assert.equal(embedded.connection.host, `${directory}.run`);
      await embedded.stop();
    },
  );

  test("replaces a socket directory that other users can access", { timeout: TIMEOUT }, async () => {
    await using place = await scratch();
    await mkdir(`${place.database}.run`);
    await chmod(`${place.database}.run`, 0o777);
    await writeFile(`${place.database}.run/planted`, "");
    const embedded = await startOn(place.database);
    assert.equal((await lstat(embedded.connection.host)).mode & 0o777, 0o700);
    assert.ok(!(await readdir(embedded.connection.host)).includes("planted"));
    await embedded.stop();
  });
});

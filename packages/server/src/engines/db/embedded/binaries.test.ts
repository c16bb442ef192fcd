import assert from "node:assert/strict";
import { chmod, copyFile, cp, mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";
import { chooseBinaries, findSources, readMajor } from "./binaries.ts";
import { withClient } from "../with-client.ts";
import { run } from "./run.ts";
import { scratch, startOn } from "./testing/scratch.ts";

const TIMEOUT = 120_000;
const sources = findSources();
const { embedded } = sources;
const withoutPackage = embedded === undefined ? "the embedded PostgreSQL package is not installed" : false;
const withoutSystem15 =
  (await run(path.join(sources.systemRoot, "15", "bin", "postgres"), ["--version"])).code === 0 ? false : "PostgreSQL 15 is not installed";

/** Links the files of the embedded package into a new package, without the library links that its install script creates. */
async function bareCopy(root: string): Promise<string> {
  const native = path.join(root, "package", "native");
  await mkdir(path.join(native, "lib"), { recursive: true });
  await cp(path.join(embedded ?? "", "bin"), path.join(native, "bin"), { recursive: true });
  await symlink(path.join(embedded ?? "", "share"), path.join(native, "share"));
  await symlink(path.join(embedded ?? "", "lib", "postgresql"), path.join(native, "lib", "postgresql"));
  const list = path.join(native, "pg-symlinks.json");
  await copyFile(path.join(embedded ?? "", "pg-symlinks.json"), list);
  const links = (JSON.parse(await readFile(list, "utf8")) as { target: string }[]).map(({ target }) => path.basename(target));
  for (const entry of await readdir(path.join(embedded ?? "", "lib"), { withFileTypes: true })) {
    if (!entry.isFile() || entry.name.endsWith(".a") || links.includes(entry.name)) continue;
    await symlink(path.join(embedded ?? "", "lib", entry.name), path.join(native, "lib", entry.name));
  }
  return native;
}

describe("selection of PostgreSQL binaries", () => {
  test("uses the embedded PostgreSQL package for a new database", { skip: withoutPackage }, async () => {
    await using place = await scratch();
    const chosen = await chooseBinaries(place.database);
    assert.deepEqual({ major: chosen.major, bin: chosen.bin }, { major: 18, bin: path.join(embedded ?? "", "bin") });
  });

  test(
    "uses the newest installed PostgreSQL from 15 on if the embedded package is missing",
    { skip: withoutSystem15, timeout: TIMEOUT },
    async () => {
      await using place = await scratch();
      const started = await startOn(place.database, { sources: { ...sources, embedded: undefined } });
      const { rows } = await withClient(started.connection, (client) =>
        client.query<{ major: string }>("select current_setting('server_version_num')::int / 10000 as major"),
      );
      assert.equal(started.major, rows[0]?.major);
      assert.equal(await readMajor(place.database), started.major);
      await started.stop();
    },
  );

  test("selects the newest PostgreSQL for a new database, and none older than 15", async () => {
    await using place = await scratch();
    const install = async (major: string): Promise<void> => {
      await mkdir(path.join(place.root, "system", major, "bin"), { recursive: true });
      for (const name of ["postgres", "initdb"]) await writeFile(path.join(place.root, "system", major, "bin", name), "", { mode: 0o755 });
    };
    const machine = { embedded: undefined, systemRoot: path.join(place.root, "system") };
    await install("14");
    await assert.rejects(chooseBinaries(place.database, machine), {
      name: "Refusal",
      message: /cannot find a PostgreSQL to start.*DATABASE_URL/,
    });
    for (const major of ["9.6", "15", "100", "17"]) await install(major);
    assert.equal((await chooseBinaries(place.database, machine)).major, 100);
    await mkdir(place.database);
    await writeFile(path.join(place.database, "PG_VERSION"), "14\n");
    assert.equal((await chooseBinaries(place.database, machine)).major, 14, "an existing database keeps its major");
  });

  test(
    "starts an existing database with its major version even if a newer one is installed",
    { skip: withoutPackage || withoutSystem15, timeout: TIMEOUT },
    async () => {
      await using place = await scratch();
      await (await startOn(place.database, { sources: { ...sources, embedded: undefined } })).stop();
      const again = await startOn(place.database);
      assert.equal(again.major, await readMajor(place.database));
      assert.notEqual(again.major, 18);
      await again.stop();
    },
  );

  test("names the PostgreSQL to install if none matches the database, and changes nothing", async () => {
    await using place = await scratch();
    await mkdir(place.database, { mode: 0o700 });
    await writeFile(path.join(place.database, "PG_VERSION"), "13\n");
    await assert.rejects(startOn(place.database), {
      name: "Refusal",
      message: /created by PostgreSQL 13, which is not installed: install it \(apt-get install postgresql-13\)/,
    });
    assert.deepEqual(await readdir(place.root), ["postgres"]);
    assert.deepEqual(await readdir(place.database), ["PG_VERSION"]);
  });

  test("refuses a database directory with unrelated files without changing it", async () => {
    await using place = await scratch();
    await mkdir(place.database);
    await writeFile(path.join(place.database, "thesis.tex"), "");
    await assert.rejects(startOn(place.database), { name: "Refusal", message: /contains files but no PostgreSQL database/ });
    assert.deepEqual(await readdir(place.root), ["postgres"]);
  });

  test("creates a database in an existing empty directory", { timeout: TIMEOUT }, async () => {
    await using place = await scratch();
    await mkdir(place.database);
    await (await startOn(place.database)).stop();
    assert.ok(await readMajor(place.database));
  });

  test("creates missing library symlinks in the embedded package", { skip: withoutPackage, timeout: TIMEOUT }, async () => {
    await using place = await scratch();
    const native = await bareCopy(place.root);
    assert.notEqual((await run(path.join(native, "bin", "initdb"), ["--version"])).code, 0, "the copy must lack its links");
    const chosen = await chooseBinaries(place.database, { ...sources, embedded: native });
    assert.equal(chosen.bin, path.join(native, "bin"));
    assert.equal(await readlink(path.join(native, "lib", "libpq.so.5")), "libpq.so.5.18");
    assert.equal((await run(path.join(native, "bin", "initdb"), ["--version"])).code, 0);
  });

  test(
    "creates library symlinks beside the database if the package is read-only",
    { skip: withoutPackage || (process.getuid?.() === 0 ? "root writes to read-only directories" : false), timeout: TIMEOUT },
    async () => {
      await using place = await scratch();
      const native = await bareCopy(place.root);
      await chmod(path.join(native, "lib"), 0o555);
      const started = await startOn(place.database, { sources: { systemRoot: path.join(place.root, "none"), embedded: native } });
      assert.equal(started.major, 18);
      await started.stop();
      assert.equal(await readlink(path.join(place.root, "postgres.lib", "libpq.so.5")), path.join(native, "lib", "libpq.so.5.18"));
      await chmod(path.join(native, "lib"), 0o755);
    },
  );

  test("skips the embedded package if its binaries do not run on this machine", async () => {
    await using place = await scratch();
    const native = path.join(place.root, "native");
    await mkdir(path.join(native, "bin"), { recursive: true });
    for (const name of ["postgres", "initdb"]) await writeFile(path.join(native, "bin", name), "#!/bin/sh\nexit 127\n", { mode: 0o755 });
    await assert.rejects(chooseBinaries(place.database, { embedded: native, systemRoot: path.join(place.root, "none") }), {
      name: "Refusal",
      message: /does not run here/,
    });
    await rm(native, { recursive: true });
  });
});

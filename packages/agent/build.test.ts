import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { buildAgent } from "./build.ts";
import { AGENT_VERSION } from "./src/agent.ts";
import type Docker from "dockerode";
import type * as unpack from "./src/runtime/unpack.ts";
import { describeVersion } from "@roamfleet/protocol/version";
import { tarGz } from "./src/testing/bundles.ts";

type Unpack = Pick<typeof unpack, "unpackBounds" | "unpackBundle">;
const run = promisify(execFile);

test("the bundled agent runs without its sources, and its separate chunks load", { timeout: 120_000 }, async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-agent-build-"));
  try {
    const program = await buildAgent(path.join(directory, "dist"));
    const [number_and_commit] = describeVersion(AGENT_VERSION).split(",");
    assert.ok((await run(program, ["--version"], { cwd: directory })).stdout.startsWith(String(number_and_commit)));
    assert.match((await run(program, ["run", "--help"], { cwd: directory })).stdout, /--enroll-key/);
    await assert.rejects(run(program, ["run", "--server", "http://127.0.0.1:1", "--state", path.join(directory, "state")]), { code: 2 });
    // The parser of the config file is a CommonJS package that loads on demand.
    const config = path.join(directory, "agent.yaml");
    await writeFile(config, "streams: { telepathy: on }\n");
    await assert.rejects(
      run(program, ["run", "--server", "http://127.0.0.1:1", "--state", path.join(directory, "state"), "--config", config]),
      /agent\.yaml: .*telepathy/,
    );
    // The code that unpacks bundles is also a separate chunk, since most runs unpack nothing.
    const chunk = (await readdir(path.dirname(program))).find((name) => name.startsWith("unpack-"));
    assert.ok(chunk !== undefined);
    const { unpackBounds, unpackBundle } = (await import(pathToFileURL(path.join(path.dirname(program), chunk)).href)) as Unpack;
    // The client of the container engine is also a separate chunk. It works without the modules that the build omits.
    const engine = (await readdir(path.dirname(program))).find((name) => /^docker-.*\.mjs$/.test(name));
    assert.ok(engine !== undefined);
    const { default: Engine } = (await import(pathToFileURL(path.join(path.dirname(program), engine)).href)) as { default: typeof Docker };
    await assert.rejects(new Engine({ socketPath: path.join(directory, "docker.sock") }).ping(), { code: "ENOENT" });
    const archive = path.join(directory, "bundle.tar.gz");
    await writeFile(archive, await tarGz([{ name: "run.sh", content: "echo hello" }]));
    const target = path.join(directory, "unpacked");
    await unpackBundle(archive, target, unpackBounds(1_000), new AbortController().signal);
    assert.equal(await readFile(path.join(target, "run.sh"), "utf8"), "echo hello");
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { freePort } from "./free-port.ts";

const TIMEOUT = { timeout: 120_000 };
const only = (port: number) => freePort("127.0.0.1", { from: port, to: port + 1 });

test("reserves a port for a process until the process exits", TIMEOUT, async (t) => {
  const program = `
    const { freePort } = await import(${JSON.stringify(new URL("free-port.ts", import.meta.url).href)});
    console.log(await freePort());
    setInterval(() => {}, 1_000);`;
  const other = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => other.kill("SIGKILL"));
  const [line] = (await once(other.stdout.setEncoding("utf8"), "data")) as [string];
  const port = Number(line);
  assert.ok(port >= 20_000 && port < 32_000, line);
  await assert.rejects(only(port), /no port from/);
  const ended = once(other, "exit");
  other.kill("SIGKILL");
  await ended;
  assert.equal(await only(port), port);
  await assert.rejects(only(port), /no port from/);
});

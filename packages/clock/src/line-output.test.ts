import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";

const LIMIT = { timeout: 120_000 };
const MODULE = JSON.stringify(path.join(import.meta.dirname, "line-output.ts"));
const LINES = 50_000;

/** Runs a script whose stdout is not read until the test calls `read`. Its stderr is inherited. */
function run(script: string) {
  const source = `import { endProcess, LineOutput } from ${MODULE};\nconst output = new LineOutput(process.stdout);\n${script}`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", source], { stdio: ["ignore", "pipe", "inherit", "ipc"] });
  const { stdout } = child;
  assert.ok(stdout);
  const read = async (): Promise<string[]> => (await Array.fromAsync(stdout.setEncoding("utf8"))).join("").trimEnd().split("\n");
  return { child, stdout, read };
}

test("drops output lines that are not read and reports their number in their place", LIMIT, async () => {
  const { child, stdout, read } = run(`
    output.onGap = (lines) => output.write("dropped " + lines + "\\n");
    for (let i = 0; i < ${LINES}; i += 1) output.write("line " + i + " " + "x".repeat(100) + "\\n");
    process.on("message", () => { output.write("end\\n"); process.disconnect(); });
    process.send(output.lines_dropped);`);
  const [dropped] = (await once(child, "message")) as [number];
  assert.ok(dropped > LINES / 2 && dropped < LINES, String(dropped));
  const reading = read();
  // Request the last line after reading has begun, so that the buffer has room for it again.
  await once(stdout, "data");
  child.send("write the last line");
  const lines = await reading;
  const kept = LINES - dropped;
  assert.deepEqual(
    lines.slice(0, kept).map((line) => line.split(" ")[1]),
    Array.from({ length: kept }, (_, i) => String(i)),
  );
  const rest = lines.slice(kept);
  assert.ok(
    ["dropped,end", "dropped"].includes(rest.map((line) => line.split(" ")[0]).join()),
    `the number of dropped lines follows the kept ones: ${rest.join()}`,
  );
  assert.equal(rest[0], `dropped ${dropped + 2 - rest.length}`);
});

test("writes all buffered lines before a process exits, even to a late reader", LIMIT, async () => {
  const { child, read } = run(`
    for (let i = 0; i < 5_000; i += 1) output.write("line " + i + " " + "x".repeat(100) + "\\n");
    process.send("written", () => void endProcess(3));`);
  await once(child, "message");
  const ended = once(child, "exit");
  const lines = await read();
  assert.equal(lines.length, 5_000);
  assert.match(lines.at(-1) ?? "", /^line 4999 /);
  assert.deepEqual(await ended, [3, null]);
});

test("a process can exit even if its output is not read", LIMIT, async () => {
  const { child, stdout } = run(`
    for (let i = 0; i < 50_000; i += 1) output.write("line " + i + " " + "x".repeat(100) + "\\n");
    await endProcess(3);`);
  assert.deepEqual(await once(child, "exit"), [3, null]);
  stdout.destroy();
});

test("counts lost output lines and continues when the disk of the output is full", LIMIT, async () => {
  const script = `
    import { LineOutput } from ${MODULE};
    const output = new LineOutput(process.stdout);
    output.write("one\\n");
    setImmediate(() => output.write("two\\n"));
    setTimeout(() => process.send(output.lines_dropped, () => process.disconnect()), 50);`;
  const full = openSync("/dev/full", "w");
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], { stdio: ["ignore", full, "inherit", "ipc"] });
  closeSync(full);
  const [dropped] = (await once(child, "message")) as [number];
  assert.equal(dropped, 2);
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

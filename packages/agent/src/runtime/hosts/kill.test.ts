import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { openSpool, type WorkloadKillTask } from "../../testing/workload-kill-driver.ts";

const DRIVER = path.join(import.meta.dirname, "../../testing/workload-kill-driver.ts");
const LINES = 3_000;
/** Numbers of records after which the successive agents kill themselves. The last agent reads the remaining output. */
const KILL_AT = [1, 2, 7, 100, 499, 500, 501, 30];

/** Runs one agent until it is killed or the program ends. Returns the lines that it printed. */
async function run(task: WorkloadKillTask): Promise<string[]> {
  const child = spawn(process.execPath, [DRIVER, JSON.stringify(task)], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk) => (text += String(chunk)));
  // The program may end only after the last agent has adopted it, which is when the agent prints the pid.
  if (task.kill_at === 0) child.stdout.once("data", () => fs.writeFileSync(path.join(task.state, "end"), ""));
  const [, signal] = (await once(child, "close")) as [number | null, string | null];
  assert.equal(signal, task.kill_at > 0 ? "SIGKILL" : null);
  return text.trim().split("\n");
}

function messagesOf(state: string): string[] {
  const spool = openSpool(state);
  const messages: string[] = [];
  const most = { records: 1_000, bytes: 1e9 };
  for (let batch = spool.next(most); batch !== undefined; batch = spool.next(most))
    messages.push(...batch.lines.map((line) => (JSON.parse(line) as { message: string }).message));
  spool.close();
  return messages;
}

const CASES: { before: boolean; memory?: string }[] = [true, false].flatMap((before) => [{ before }, { before, memory: "/dev/shm" }]);
for (const { before, memory } of CASES)
  test(
    `an agent killed ${before ? "before" : "after"} it stores a line of output ${memory === undefined ? "on the disk" : "in memory"} neither loses nor repeats lines, and the program keeps its pid`,
    { timeout: 240_000 },
    async () => {
      const state = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-kill-"));
      fs.mkdirSync(path.join(state, "apps", "main"), { recursive: true });
      // The program prints slowly enough that every agent has something to read, and ends when the last agent runs.
      const script = `i=0; while [ $i -lt ${LINES} ]; do echo "line $i"; i=$((i + 1)); [ $((i % 20)) -gt 0 ] || sleep 0.02; done
        while [ ! -e end ]; do sleep 0.05; done; printf "the end"; exit 5`;
      const in_memory = memory === undefined ? undefined : fs.mkdtempSync(path.join(memory, "roamfleet-kill-"));
      const task = { state, script, before, ...(in_memory === undefined ? {} : { memory: in_memory }) };
      try {
        const pids = new Set<string>();
        for (const kill_at of KILL_AT) pids.add((await run({ ...task, kill_at }))[0]!);
        const [pid, how] = await run({ ...task, kill_at: 0 });
        assert.deepEqual([...pids], [pid]);
        assert.equal(how, "exited with 5");
        const wanted = [...Array.from({ length: LINES }, (_, i) => `line ${i}`), "the end"];
        const messages = messagesOf(state);
        assert.deepEqual(messages.length, wanted.length);
        assert.deepEqual(messages, wanted);
        assert.deepEqual(fs.readdirSync(path.join(state, "apps/main/output")), []);
        if (in_memory !== undefined) assert.deepEqual(fs.readdirSync(in_memory), []);
      } finally {
        for (const directory of [state, in_memory ?? state]) fs.rmSync(directory, { recursive: true, force: true });
      }
    },
  );

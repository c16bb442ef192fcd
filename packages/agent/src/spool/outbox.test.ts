import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { ReportBody } from "@roamfleet/protocol/link";
import { Report } from "@roamfleet/protocol/link/messages";
import { Value } from "typebox/value";
import { Outbox, OUTBOX_REPORTS_MAX, OutboxFullError } from "./outbox.ts";

const observed = (generation: number): ReportBody => ({ kind: "observed", generation });
const target = (target_id: string, status: "downloading" | "staged" | "applied"): ReportBody => ({
  kind: "target",
  deployment_id: "dep_1",
  target_id,
  attempt: 1,
  status,
});

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "rf-outbox-"));
  t.after(() => {
    if (statSync(directory).dev !== statSync(tmpdir()).dev) spawnSync("umount", ["-l", directory]);
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

function open(
  directory: string,
  on_disk: (reason: string | undefined) => void = () => {},
  clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" }),
): Outbox {
  return new Outbox({ directory, clock, now: () => clock.now(), on_disk });
}

const bodies = (outbox: Outbox): ReportBody[] => outbox.after(0, OUTBOX_REPORTS_MAX).map((report) => report.body);

test("outbox reports keep their sequence numbers across a restart", (t) => {
  const directory = temporaryDirectory(t);
  const first = open(directory);
  const numbers = [1, 2, 3].map((generation) => first.append(observed(generation)).seq);
  first.close();
  const second = open(directory);
  assert.equal(second.outbox_id, first.outbox_id);
  assert.deepEqual(
    second.after(0, 10).map(({ seq }) => seq),
    numbers,
  );
  assert.ok(second.append(observed(4)).seq > numbers.at(-1)!);
  assert.deepEqual(bodies(second), [1, 2, 3, 4].map(observed));
  second.close();
});

test("drops a truncated line of the outbox and keeps the reports around it", (t) => {
  const directory = temporaryDirectory(t);
  const first = open(directory);
  first.append(observed(1));
  first.close();
  const segment = join(
    directory,
    readdirSync(directory).find((name) => name.endsWith(".jsonl"))!,
  );
  appendFileSync(segment, '{"type":"report","seq":2,"at":"2030-');
  const second = open(directory);
  second.append(observed(3));
  second.close();
  assert.deepEqual(bodies(open(directory)), [observed(1), observed(3)]);
});

test("does not send an outbox report with a wrong checksum", (t) => {
  const directory = temporaryDirectory(t);
  const first = open(directory);
  for (const id of ["a", "b", "c"]) first.append(target(id, "applied"));
  first.close();
  for (const name of readdirSync(directory).filter((one) => one.endsWith(".jsonl"))) {
    const path = join(directory, name);
    writeFileSync(path, readFileSync(path, "utf8").replace(/"b"(.*)"applied"/, '"b"$1"bpplied"'));
  }
  const second = open(directory);
  assert.deepEqual(bodies(second), [target("a", "applied"), target("c", "applied")]);
  assert.equal(second.damaged, 1);
  second.close();
});

test("deletes acknowledged reports and never reuses their sequence numbers, even after a restart", (t) => {
  const directory = temporaryDirectory(t);
  const first = open(directory);
  const [a, b, c] = [1, 2, 3].map((generation) => first.append(observed(generation)).seq);
  assert.equal(first.reconcile(b!), true);
  assert.deepEqual(
    first.after(0, 10).map(({ seq }) => seq),
    [c],
  );
  first.acknowledge(c!);
  first.close();
  const second = open(directory);
  // The newest segment may still contain acknowledged reports: the next welcome acknowledges them again.
  assert.equal(second.reconcile(c!), true);
  assert.deepEqual(bodies(second), []);
  assert.ok(second.append(observed(4)).seq > Math.max(a!, b!, c!));
  second.close();
});

test("the outbox deletes old segments while reports are acknowledged", (t) => {
  const directory = temporaryDirectory(t);
  const outbox = open(directory);
  for (let i = 0; i < 6_000; i += 1) outbox.acknowledge(outbox.append(observed(i)).seq);
  assert.ok(readdirSync(directory).length <= 4, readdirSync(directory).join(" "));
  outbox.close();
});

test("the outbox gets a new ID if the server's sequence number is ahead", (t) => {
  const directory = temporaryDirectory(t);
  const outbox = open(directory);
  outbox.append(observed(1));
  const id = outbox.outbox_id;
  assert.equal(outbox.reconcile(1_000_000), false);
  assert.notEqual(outbox.outbox_id, id);
  assert.deepEqual(bodies(outbox), [observed(1)]);
  assert.equal(open(directory).outbox_id, outbox.outbox_id);
  outbox.close();
});

test("a full outbox drops superseded reports but never the final status of a target", { timeout: 120_000 }, (t) => {
  const directory = temporaryDirectory(t);
  const outbox = open(directory);
  outbox.append(target("a", "downloading"));
  outbox.append(target("a", "staged"));
  outbox.append(target("a", "applied"));
  outbox.append(target("b", "downloading"));
  outbox.append(target("b", "staged"));
  while (outbox.size < OUTBOX_REPORTS_MAX) outbox.append(observed(outbox.size));
  outbox.append(observed(99_999));
  const expected = [target("a", "applied"), target("b", "staged"), observed(OUTBOX_REPORTS_MAX - 1), observed(99_999)];
  assert.deepEqual(bodies(outbox), expected);
  outbox.close();
  const reopened = open(directory);
  assert.deepEqual(bodies(reopened), expected);
  for (let i = reopened.size; i < OUTBOX_REPORTS_MAX; i += 1) reopened.append(target(`t${i}`, "applied"));
  reopened.append(target("in place of the older observed", "applied"));
  assert.throws(() => reopened.append(target("one more", "applied")), OutboxFullError);
  assert.equal(reopened.size, OUTBOX_REPORTS_MAX);
  reopened.close();
});

test("kill -9 loses no outbox report whose append has returned", { timeout: 120_000 }, async (t) => {
  const directory = temporaryDirectory(t);
  const program = `
    import { Outbox } from ${JSON.stringify(join(import.meta.dirname, "outbox.ts"))};
    import { systemClock } from "@roamfleet/clock";
    const outbox = new Outbox({ directory: process.argv[1], clock: systemClock, now: () => systemClock.now(), on_disk() {} });
    for (let i = 1; ; i += 1) process.stdout.write(outbox.append({ kind: "observed", generation: i }).seq + "\\n");`;
  const ledger: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program, directory], {
      stdio: ["ignore", "pipe", "inherit"],
      cwd: import.meta.dirname,
    });
    const ended = once(child, "exit");
    const stop_at = ledger.length + 50 + round * 13;
    for await (const line of createInterface(child.stdout)) {
      ledger.push(Number(line));
      if (ledger.length === stop_at) child.kill("SIGKILL");
    }
    await ended;
  }
  const outbox = open(directory);
  const kept = new Set(outbox.after(0, OUTBOX_REPORTS_MAX).map(({ seq }) => seq));
  assert.ok(ledger.length >= 250);
  assert.deepEqual(
    ledger.filter((seq) => !kept.has(seq)),
    [],
  );
  assert.equal(new Set(ledger).size, ledger.length, "a number was used twice");
  outbox.close();
});

test("keeps outbox reports in memory while the disk is full and writes them afterwards", { timeout: 120_000 }, async (t) => {
  const directory = temporaryDirectory(t);
  const mount = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", directory]);
  if (mount.status !== 0) return t.skip("needs root and tmpfs to make a disk that is full");
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const troubles: (string | undefined)[] = [];
  const outbox = open(directory, (reason) => troubles.push(reason), clock);
  outbox.append(observed(1));
  const ballast = join(directory, "ballast");
  assert.throws(() => writeFileSync(ballast, Buffer.alloc(128 * 1024)), { code: "ENOSPC" });
  // The segment's last page has room for a few more lines.
  let generation = 1;
  while (troubles.length === 0) outbox.append(observed((generation += 1)));
  outbox.append(observed((generation += 1)));
  assert.match(troubles[0]!, /ENOSPC/);
  const all = Array.from({ length: generation }, (_, i) => observed(i + 1));
  assert.deepEqual(bodies(outbox), all);
  assert.ok(statSync(ballast).size > 0);
  rmSync(ballast);
  await clock.advance({ seconds: 10 });
  assert.deepEqual(troubles.slice(1), [undefined]);
  outbox.close();
  const reopened = open(directory);
  assert.deepEqual(bodies(reopened), all);
  reopened.close();
});

test("truncates a report to the server's limits, so it does not block later reports", (t) => {
  const outbox = open(temporaryDirectory(t));
  const message = `${"x".repeat(3_999)}😀 and more`;
  const { body } = outbox.append({
    kind: "target",
    deployment_id: "d",
    target_id: "t",
    attempt: 1,
    status: "failed",
    reason: "r".repeat(500),
    message,
  });
  const report = { type: "report", seq: 1, at: "2030-01-01T00:00:00.000Z", body };
  assert.deepEqual(Value.Errors(Report, report), []);
  assert.ok(body.kind === "target" && body.message?.isWellFormed());
  outbox.close();
});

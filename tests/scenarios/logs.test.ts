import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";

const TIMEOUT = { timeout: 240_000 };
const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test("log files of three robots are collected completely despite rotation, disconnects and offline time", TIMEOUT, async () => {
  const directory = mkdtempSync(join(tmpdir(), "roamfleet-fleet-logs-"));
  const file = (i: number): string => join(directory, `robot-${i}.log`);
  const write = (i: number, ...numbers: number[]): void => appendFileSync(file(i), numbers.map((n) => `robot ${i} line ${n}\n`).join(""));
  await using plane = await startPlane();
  await using home = await RfHome.make();
  const env = { ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_TOKEN: plane.default_org.admin_token };
  const start = (i: number): Promise<LiveRobot> => {
    write(i);
    return LiveRobot.start(plane, { robot: { logs: { journald: false, files: [file(i)], rosout: false, filters: [] } } });
  };
  await using first = await start(1);
  await using second = await start(2);
  await using third = await start(3);
  const { fleet_id, name } = (await plane.api.getRobot({ params: { id: third.id } })).data;
  const third_id = third.id;
  await third.stop();
  await plane.until(
    "the third to be offline",
    async () => (await plane.api.getRobot({ params: { id: third_id } })).data.status === "offline",
  );

  let [out, follower] = ["", undefined as ChildProcess | undefined];
  const followed = home.run(["fleets", "logs", fleet_id, "--follow", "--grep", "line"], {
    env,
    on_output: (child, text) => {
      follower = child;
      out += text;
    },
  });
  await plane.until("the third to be named as offline", () => out.includes(`offline: ${name}`));
  const has = (i: number, n: number): boolean => out.includes(`robot ${i} line ${n}\n`);
  write(1, ...range(1, 20));
  write(2, ...range(1, 20));
  await plane.until("lines of two robots", () => has(1, 20) && has(2, 20));
  renameSync(file(1), `${file(1)}.1`);
  write(1, ...range(21, 40));
  write(3, ...range(1, 20));
  await third.start();
  await plane.until("lines of a rotated file and of the one that joined", () => has(1, 40) && has(3, 20));
  // Lines logged without a connection arrive after the reconnect.
  first.line.cut();
  write(1, ...range(41, 60));
  await first.back();
  await plane.until("lines of the cut", () => has(1, 60));
  assert.ok(second.connected);
  follower?.kill("SIGINT");
  const { code, stdout } = await followed;
  assert.equal(code, 130);
  for (const [i, last] of [
    [1, 60],
    [2, 20],
    [3, 20],
  ] as const) {
    const found = Array.from(stdout.matchAll(new RegExp(`robot ${i} line (\\d+)`, "g")), ([, n]) => Number(n));
    assert.deepEqual(found, range(1, last), `robot ${i}`);
  }

  const export_file = join(directory, "fleet.ndjson");
  const exported = await home.run(["fleets", "logs", fleet_id, "--since", "1h", "--grep", "LINE", "--export", export_file], { env });
  assert.equal(exported.code, 0, exported.stderr);
  assert.equal(readFileSync(export_file, "utf8").trim().split("\n").length, 100);
  const searched = await home.run(["robots", "logs", first.id, "--source", file(1), "--grep", "line 3", "--limit", "3"], { env });
  assert.deepEqual(searched.stdout.match(/line \d+/g), ["line 37", "line 38", "line 39"]);
  rmSync(directory, { recursive: true });
});

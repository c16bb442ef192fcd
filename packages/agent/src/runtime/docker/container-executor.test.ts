import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import {
  containerEvents,
  containersOf,
  imageReleases,
  runningTags,
  SKIP,
  startContainerRig,
  useEngine,
} from "../../testing/container-rig.ts";
import { socketIn } from "../../local/socket-path.ts";
import type { DeploymentsRig } from "../../testing/deployments-rig.ts";
import { imageRelease, shellImage, STAYS_UP, tarOf } from "../../testing/images.ts";

const LIMIT = { timeout: 300_000, skip: SKIP };
/** A crash loop is reported at the third exit, well before the end of this time. */
const UNTIL_IT_CRASHED = { verify_seconds: 50 };
const engine = useEngine();
const up = (more = "") => shellImage(`${more}\n${STAYS_UP}`);
const saidBy = (rig: DeploymentsRig, source: string): string[] =>
  rig.logs.filter((one) => one.source === source).map(({ message }) => message);

test("rolls back an unhealthy image to the container that ran before", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  const first = await rig.ended(rig.deploy(await imageRelease("v1", await up(), {}, rig.server)));
  assert.deepEqual([first.status, first.message], ["applied", undefined]);
  const [one] = await containersOf(engine(), rig.state);
  await until("its output in the log", () => saidBy(rig, "main").includes("up v1"));
  const sick = { health: { command: ["sh", "-c", "echo sick; exit 3"] } };
  const bad = await rig.ended(rig.deploy(await imageRelease("v2", await up("# bad"), sick, rig.server)));
  assert.deepEqual([bad.status, bad.reason], ["rolled_back", "health_check_failed"]);
  assert.match(bad.message ?? "", /exited with 3: sick/);
  const left = await containersOf(engine(), rig.state);
  assert.deepEqual(
    left.map(({ id, state }) => [id, state]),
    [[one?.id, "running"]],
  );
  assert.deepEqual(
    rig.deployments.workloads().map(({ app, kind, status, release_tag }) => [app, kind, status, release_tag]),
    [["main", "container_image", "running", "v1"]],
  );
});

test("rolls back an image whose program keeps exiting as a crash loop", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  await rig.ended(rig.deploy(await imageRelease("v1", await up(), {}, rig.server)));
  const bad = await rig.ended(
    rig.deploy(await imageRelease("v2", await shellImage("echo cannot go on; exit 7"), {}, rig.server), UNTIL_IT_CRASHED),
  );
  assert.deepEqual([bad.status, bad.reason], ["rolled_back", "crash_loop"]);
  assert.match(bad.message ?? "", /exited 3 times/);
  await until("its words", () => saidBy(rig, "main").includes("cannot go on"));
  assert.ok(saidBy(rig, "roamfleet").some((message) => /main .*; the engine starts it again/.test(message)));
  assert.deepEqual(await runningTags(engine(), rig.state), ["v1"]);
});

test("removes container, layers, image and volumes when a first image fails", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  const mounts = [{ type: "volume", source: "data", target: "/data" }];
  const bad = await rig.ended(rig.deploy(await imageRelease("v1", await shellImage("exit 1"), { mounts }, rig.server), UNTIL_IT_CRASHED));
  assert.deepEqual([bad.status, bad.reason], ["failed", "crash_loop"]);
  assert.deepEqual(await containersOf(engine(), rig.state), []);
  await until("its layers to go", () => fs.readdirSync(path.join(rig.state, "layers")).length === 0);
  assert.deepEqual(await imageReleases(engine(), rig.state), []);
  const { Volumes } = JSON.parse(await engine().ask("GET", "/volumes")) as { Volumes: { Name: string }[] | null };
  assert.deepEqual(
    (Volumes ?? []).filter(({ Name }) => Name.includes("main-data")),
    [],
  );
});

test("counts a container restart by the engine's restart policy", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  const script = 'if [ -e /tmp/again ]; then trap "exit 0" TERM; while :; do sleep 0.1; done; fi; touch /tmp/again; sleep 4; exit 5';
  const end = await rig.ended(rig.deploy(await imageRelease("v1", await shellImage(script), {}, rig.server)));
  assert.equal(end.status, "applied");
  await until("the restart to be seen", () => rig.deployments.workloads()[0]?.restarts === 1);
  await until("it to run again", () => rig.deployments.workloads()[0]?.status === "running");
});

test("`replace: beside` keeps the old container until the new one is verified, `replace: after` does not", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  await rig.ended(rig.deploy(await imageRelease("v1", await up(), {}, rig.server)));
  const verify_seconds = 1;
  for (const [tag, replace] of [
    ["v2", "beside"],
    ["v3", "after"],
  ] as const) {
    const target = rig.deploy(await imageRelease(tag, await up(`# ${tag}`), { replace }, rig.server), { verify_seconds });
    assert.equal((await rig.ended(target)).status, "applied");
    await until("one container", async () => (await containersOf(engine(), rig.state)).length === 1);
    assert.deepEqual(await runningTags(engine(), rig.state), [tag]);
  }
  const events = await containerEvents(engine(), rig.state);
  const at = (tag: string, what: string): number => events.find((one) => one.tag === tag && one.what === what)?.at_ms ?? Number.NaN;
  assert.ok(at("v1", "die") - at("v2", "start") > 0.9 * verify_seconds * 1_000, JSON.stringify(events));
  assert.ok(at("v2", "die") < at("v3", "start"), JSON.stringify(events));
});

test("downloads only the image layers that the robot does not have yet", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  const shared = await tarOf([{ name: "map", content: Buffer.alloc(1_000_000, 7) }]);
  const first = await imageRelease("v1", await shellImage(STAYS_UP, [shared]), {}, rig.server);
  const second = await imageRelease("v2", await shellImage(`# 2\n${STAYS_UP}`, [shared]), {}, rig.server);
  assert.equal((await rig.ended(rig.deploy(first))).status, "applied");
  const before = rig.server.requests.length;
  assert.equal((await rig.ended(rig.deploy(second))).status, "applied");
  const known = new Set(first.release.layers?.layers.map(({ sha256 }) => sha256));
  const fresh = [second.release.layers!.config, ...second.release.layers!.layers].filter(({ sha256 }) => !known.has(sha256));
  assert.deepEqual(
    rig.server.requests.slice(before).map((request) => request.path),
    fresh.map(({ sha256 }) => `/agent/artifacts/${sha256}`),
  );
  const bytes = fresh.reduce((sum, { size }) => sum + size, 0);
  const told = rig.progress.filter(({ target_id }) => target_id === "tgt_v2").at(-1);
  assert.deepEqual([told?.bytes_done, told?.bytes_total], [bytes, bytes]);
  assert.ok(bytes < 10_000, `${bytes} bytes of ${second.bytes.length}`);
});

test("deletes old images and layers except those of the current and previous release", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  for (const tag of ["v1", "v2", "v3"])
    assert.equal((await rig.ended(rig.deploy(await imageRelease(tag, await up(`# ${tag} of three`), {}, rig.server)))).status, "applied");
  await until("the oldest image to go", async () => (await imageReleases(engine(), rig.state)).join() === "rel_v2,rel_v3");
  // Five files remain: two configs, two script layers, and the shared shell layer.
  await until("its layers to go", () => fs.readdirSync(path.join(rig.state, "layers")).length === 5);
});

test("a container can use the agent's socket, even after the agent restarts", LIMIT, async () => {
  await using rig = await startContainerRig(engine(), { mount_directories: ["/usr"] });
  const config = {
    container_sockets: [engine().socket],
    mount_directories: ["/usr"],
    stop_workloads: false,
    local_api: { socket: socketIn(rig.state) },
  };
  const reboot = async (): Promise<void> => {
    await rig.local_interface?.stop();
    await rig.deployments.stop();
    await rig.boot(config);
  };
  await reboot();
  const lib = ["/usr/lib", "/usr/lib64"].filter((source) => fs.existsSync(source));
  const mounts = [
    { type: "bind", source: "/usr", target: "/usr", read_only: true },
    ...lib.map((source) => ({ type: "bind", source, target: source.slice("/usr".length), read_only: true })),
  ];
  const ask = `curl -sS -X PUT -d '{"owner":"'$ROAMFLEET_APP'","ttl_seconds":60}' --unix-socket $ROAMFLEET_SOCKET http://robot/v1/lock`;
  const script = `PATH=$PATH:/usr/bin; trap "exit 0" TERM; touch /run/roamfleet/x 2>/dev/null && echo writable
    echo "sees $(ls /run/roamfleet | tr '\\n' ' ')"; n=0; while :; do n=$((n+1)); echo "$n: $(${ask} 2>&1)"; sleep 0.2; done`;
  const target = rig.deploy(await imageRelease("v1", await shellImage(script), { mounts, health: { command: ["true"] } }, rig.server));
  assert.equal((await rig.ended(target)).status, "applied", JSON.stringify(rig.logs.slice(-5)));
  const granted = () => saidBy(rig, "main").filter((message) => message.includes('"owner":"main"')).length;
  await until("the lock to be the container's", () => granted() > 0 && rig.local_interface?.permission.lock()?.owner === "main");
  assert.ok(saidBy(rig, "main").includes("sees agent.sock configs "), saidBy(rig, "main")[0]);
  assert.ok(!saidBy(rig, "main").includes("writable"));
  const [one] = await containersOf(engine(), rig.state);
  await rig.local_interface?.stop();
  await until("the socket to be closed", () => /Could|Fail|refused|couldn/i.test(saidBy(rig, "main").at(-1) ?? ""));
  await reboot();
  const before = granted();
  await until("the next agent to answer", () => granted() > before);
  const [same] = await containersOf(engine(), rig.state);
  assert.deepEqual([same?.id, same?.state], [one?.id, "running"]);
});

test("a container gets its environment, read-only configs and the mounts that the robot allows", LIMIT, async () => {
  const shared = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-mount-"));
  await using rig = await startContainerRig(engine(), { mount_directories: [shared] });
  try {
    fs.mkdirSync(path.join(shared, "maps"));
    fs.writeFileSync(path.join(shared, "maps", "floor"), "floor 7\n");
    const script = `echo "app $ROAMFLEET_APP of $ROAMFLEET_RELEASE, $SPEED"; cat /maps/floor; touch $ROAMFLEET_CONFIG_DIR/x && echo writable
      cat /sys/fs/cgroup/memory/memory.limit_in_bytes; ulimit -n; test -e /dev/null2 && echo device; ${STAYS_UP}`;
    const manifest = {
      env: { SPEED: "3 m/s" },
      mounts: [
        { type: "bind", source: path.join(shared, "maps"), target: "/maps", read_only: true },
        { type: "tmpfs", target: "/scratch", size_bytes: 65_536 },
      ],
      devices: [{ host: "/dev/null", container: "/dev/null2" }],
      limits: { memory_bytes: 33_554_432, cpus: 0.5, pids: 50 },
      ulimits: { nofile: { soft: 512, hard: 512 } },
    };
    assert.equal((await rig.ended(rig.deploy(await imageRelease("v1", await shellImage(script), manifest, rig.server)))).status, "applied");
    await until("all its output", () => saidBy(rig, "main").includes("up v1"));
    const said = saidBy(rig, "main");
    for (const line of ["app main of v1, 3 m/s", "floor 7", "512", "device"])
      assert.ok(said.includes(line), `${line} in ${said.join(" | ")}`);
    assert.ok(!said.includes("writable"));
    const [one] = await containersOf(engine(), rig.state);
    const { HostConfig } = JSON.parse(await engine().ask("GET", `/containers/${one?.id}/json`)) as { HostConfig: Record<string, unknown> };
    assert.deepEqual([HostConfig["Memory"], HostConfig["NanoCpus"], HostConfig["PidsLimit"]], [33_554_432, 500_000_000, 50]);
    for (const source of ["/etc", path.join(shared, "gone"), rig.state]) {
      const mounts = [{ type: "bind", source, target: "/x" }];
      const refused = await rig.ended(
        rig.deploy(await imageRelease("v2", await up(), { mounts }, rig.server), { target: `tgt_of_${source}` }),
      );
      assert.deepEqual([refused.status, refused.reason], ["failed", "rejected_by_robot"], source);
      assert.match(refused.message ?? "", new RegExp(`mount ${source}`));
    }
    assert.deepEqual(await runningTags(engine(), rig.state), ["v1"]);
  } finally {
    fs.rmSync(shared, { recursive: true });
  }
});

test("checks a container's health by HTTP, by a command inside it, or by its output", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  const late = (more: string) => shellImage(`sleep 0.3; ${more}; ${STAYS_UP}`);
  const good = [
    ["c1", "touch /tmp/ready", { command: ["test", "-e", "/tmp/ready"] }],
    ["l1", "echo serving on 8080", { log: { pattern: "^serving on \\d+$" } }],
    ["h1", "true", { http: { url: `${rig.server.origin}/agent/configs/well` } }],
  ] as const;
  rig.server.setConfig("well", Buffer.from("{}"));
  for (const [tag, more, health] of good) {
    // Enough for three successes in a row after a late start, even of a busy engine.
    const end = await rig.ended(rig.deploy(await imageRelease(tag, await late(more), { health }, rig.server), { verify_seconds: 8 }));
    assert.deepEqual([end.status, end.message], ["applied", undefined], tag);
  }
  const bad = [
    ["c2", "true", { command: ["sleep", "60"] }, /did not end within|still running from an earlier check/],
    ["l2", "echo serving nothing", { log: { pattern: "^serving on \\d+$" } }, /no line of its output matches/],
    ["h2", "true", { http: { url: `${rig.server.origin}/agent/configs/ill` } }, /returned status 404/],
  ] as const;
  for (const [tag, more, health, message] of bad) {
    const end = await rig.ended(rig.deploy(await imageRelease(tag, await late(more), { health }, rig.server), { verify_seconds: 1.5 }));
    assert.deepEqual([end.status, end.reason], ["rolled_back", "health_check_failed"], tag);
    assert.match(end.message ?? "", message);
  }
});

test("reports the URL of a container's metrics while the container runs and its manifest has one", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  const manifest = { host_network: true, metrics: { port: 9_464 } };
  await rig.ended(rig.deploy(await imageRelease("v1", await up(), manifest, rig.server)));
  assert.deepEqual(rig.deployments.scrape_targets?.(), [{ app: "main", url: "http://127.0.0.1:9464/metrics" }]);
  await rig.ended(rig.deploy(await imageRelease("v2", await up("# two"), {}, rig.server)));
  assert.deepEqual(rig.deployments.scrape_targets?.(), []);
});

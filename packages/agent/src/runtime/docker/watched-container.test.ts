import assert from "node:assert/strict";
import { test } from "node:test";
import { type Clock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { runningTags, SKIP } from "../../testing/container-rig.ts";
import { DeploymentsRig } from "../../testing/deployments-rig.ts";
import { DockerEngine } from "../../testing/docker-engine.ts";
import { imageRelease, shellImage, STAYS_UP } from "../../testing/images.ts";
import { StubEngine } from "../../testing/stub-engine.ts";

const LIMIT = { timeout: 300_000, skip: SKIP };
/** The verification window. The sleep between two probes is a fifth of it. */
const VERIFY_SECONDS = 1.05;
const BETWEEN_PROBES_MS = 210;
const AFTER_ROLLBACK_MS = 555;
const timing = { probe_interval_ms: 1_000, rollback_alive_ms: AFTER_ROLLBACK_MS };

/** A clock that runs work in one sleep of a given length. Other sleeps end after the work, so no engine call overlaps it. */
class PausingClock {
  #next: { ms: number; work: () => Promise<void> } | undefined;
  #running: Promise<void> | undefined;
  readonly clock: Clock = {
    ...systemClock,
    sleep: async (ms, signal) => {
      if (ms === this.#next?.ms) {
        const { work } = this.#next;
        this.#next = undefined;
        this.#running = work();
      } else await systemClock.sleep(ms, signal);
      await this.#running;
    },
  };

  during(ms: number, work: () => Promise<void>): void {
    this.#next = { ms, work };
  }
}

interface Restarting {
  engine: DockerEngine;
  rig: DeploymentsRig;
  /** Restarts the engine during the next sleep of `ms`. The returned function reports whether the restart is done. */
  restartDuring: (ms: number, signal: NodeJS.Signals) => () => boolean;
}

/** Runs `work` with a running release. */
async function withRestarts(work: (parts: Restarting) => Promise<void>): Promise<void> {
  await using own = await DockerEngine.start();
  const pausing = new PausingClock();
  await using rig = await DeploymentsRig.start({
    config: { container_sockets: [own.socket] },
    tuning: { timing },
    clock: pausing.clock,
  });
  const first = await imageRelease("v0", await shellImage(STAYS_UP), {}, rig.server);
  assert.equal((await rig.ended(rig.deploy(first))).status, "applied");
  await work({
    engine: own,
    rig,
    restartDuring: (ms, signal) => {
      let done = false;
      pausing.during(ms, async () => {
        const began = performance.now();
        await own.stop(signal);
        await own.restart();
        await until("the window to end", () => performance.now() - began > VERIFY_SECONDS * 1_000);
        done = true;
      });
      return () => done;
    },
  });
}

test("applies a healthy image even if dockerd restarts between two health probes", LIMIT, () =>
  withRestarts(async ({ engine, rig, restartDuring }) => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const release = await imageRelease(signal.toLowerCase(), await shellImage(`# ${signal}\n${STAYS_UP}`), {}, rig.server);
      const restarted = restartDuring(BETWEEN_PROBES_MS, signal);
      const end = await rig.ended(rig.deploy(release, { verify_seconds: VERIFY_SECONDS }));
      assert.deepEqual([end.status, end.message, restarted()], ["applied", undefined, true], signal);
      assert.deepEqual(await runningTags(engine, rig.state), [signal.toLowerCase()]);
    }
  }),
);

test("completes a rollback even if dockerd restarts while the old container is checked", LIMIT, () =>
  withRestarts(async ({ engine, rig, restartDuring }) => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const sick = { health: { command: ["sh", "-c", "exit 3"] } };
      const release = await imageRelease(signal.toLowerCase(), await shellImage(`# ${signal}\n${STAYS_UP}`), sick, rig.server);
      const restarted = restartDuring(AFTER_ROLLBACK_MS, signal);
      const end = await rig.ended(rig.deploy(release));
      assert.deepEqual([end.status, end.reason, restarted()], ["rolled_back", "health_check_failed", true], signal);
      assert.deepEqual(await runningTags(engine, rig.state), ["v0"]);
    }
  }),
);

test("a container engine that refuses its event stream does not count as restarted", { timeout: 60_000 }, async () => {
  let asked = false;
  await using stub = await StubEngine.start((request, response) => {
    response.statusCode = request.url?.startsWith("/events") ? 403 : 200;
    response.end("{}");
    response.on("close", () => (asked = true));
  });
  const { signal } = new AbortController();
  await stub.engine.use({ what: "describe itself", signal }, (docker) => docker.info());
  asked = false;
  using run = stub.engine.watchRun();
  while (!asked) await new Promise(setImmediate);
  await stub.engine.use({ what: "describe itself", signal }, (docker) => docker.info());
  assert.equal(run.ended, false);
});

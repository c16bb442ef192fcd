import assert from "node:assert/strict";
import { after, test } from "node:test";
import { slow } from "@roamfleet/swarm/testing";
import { keysOf } from "../../packages/dashboard/src/api/stale.ts";
import { EventReader } from "../harness/event-reader.ts";
import { type HarnessOrg, startPlane } from "../harness/index.ts";
import { promiseSize } from "../harness/promise.ts";

const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_200_000 }) };
const ROBOTS = promiseSize({ test: 200, full: 2_000 });
/** 200 KB for 2,000 robots. */
const BYTES_PER_ROBOT = 100;
/** Additional bytes if robots take longer than the simulated steps: one summary of each kind every 0.45 s. */
const BYTES_PER_SECOND = 1_400;
const STEP_MS = 1_000;
const PAGE_ROWS = 500;

const plane = await startPlane();
after(() => plane[Symbol.asyncDispose]());

/** The data that a page shows of a deployment: read on open and after each event that makes it stale, one request at a time. */
class Picture {
  status = "";
  counts: unknown;
  targets = new Map<string, string>();
  readings = 0;
  readonly #org: HarnessOrg;
  readonly #id: string;
  #is_stale = false;
  #is_reading = false;

  constructor(org: HarnessOrg, id: string, reader: EventReader) {
    this.#org = org;
    this.#id = id;
    reader.onHeard = ({ event, data }) => {
      if (event === "lost") return this.#read();
      if (event !== "changes") return;
      const keys = (data.changes as Parameters<typeof keysOf>[0][]).flatMap((change) => keysOf(change));
      if (keys.some(([name, args]) => name === "listDeploymentTargets" && (args === undefined || args.params.id === id))) this.#read();
    };
    this.#read();
  }

  #read(): void {
    this.#is_stale = true;
    if (!this.#is_reading) void this.#readAll();
  }

  async #readAll(): Promise<void> {
    this.#is_reading = true;
    while (this.#is_stale) {
      this.#is_stale = false;
      this.readings += 1;
      Object.assign(this, await shown(this.#org, this.#id));
    }
    this.#is_reading = false;
  }
}

async function shown(org: HarnessOrg, id: string): Promise<Pick<Picture, "status" | "counts" | "targets">> {
  const { status, counts } = await org.deployment(id);
  const targets = new Map<string, string>();
  for (let cursor: string | undefined; ;) {
    const page = await org.api.listDeploymentTargets({ params: { id }, query: { limit: PAGE_ROWS, cursor } });
    for (const target of page.items) targets.set(target.robot_id, target.status);
    if (page.next_cursor === null) return { status, counts, targets };
    cursor = page.next_cursor;
  }
}

test(`a fleet deployment sends a dashboard at most ${BYTES_PER_ROBOT} bytes of coalesced events per robot`, LIMIT, async (t) => {
  const org = await plane.org();
  const fleet_id = await org.fleet();
  await org.enrollRobots(ROBOTS, { fleet_id, behavior: slow(STEP_MS) });
  const release = await org.release();
  const headers = { authorization: `Bearer ${org.admin_token}` };
  using dashboard = await EventReader.open(plane.url, headers, { coalesce: true });
  using client = await EventReader.open(plane.url, headers);
  const began_ms = performance.now();
  const { id } = await org.deploy(release, { fleet_id });
  const picture = new Picture(org, id, dashboard);
  await plane.until("the picture of a deployment that is applied", () => picture.status === "applied" && picture.targets.size === ROBOTS);
  await plane.until("the picture of the last robot", () => [...picture.targets.values()].every((status) => status === "applied"));
  const seconds = (performance.now() - began_ms) / 1_000;
  const { status, counts, targets } = await shown(org, id);
  assert.deepEqual([picture.status, picture.counts, picture.targets], [status, counts, targets]);

  await client.until("the end", ({ data }) => data.kind === "deployment" && data.status === "applied");
  const applied = client.of("target").filter((change) => change.change === "status" && change.status === "applied");
  assert.equal(new Set(applied.map(({ robot_id }) => robot_id)).size, ROBOTS, "a reader that did not ask for summaries gets each change");
  assert.ok(dashboard.coalesced.some((change) => "count" in change && change.kind === "target" && change.deployment_id === id));
  const figures = `${ROBOTS} robots in ${seconds.toFixed(1)} s: ${dashboard.bytes} bytes and ${picture.readings} readings of the list, ${client.bytes} bytes without coalescing`;
  t.diagnostic(figures);
  const most = ROBOTS * BYTES_PER_ROBOT + Math.max(0, seconds - 10) * BYTES_PER_SECOND;
  assert.ok(dashboard.bytes <= most, `${figures}, at most ${Math.round(most)}`);
  assert.ok(dashboard.bytes * 5 < client.bytes, figures);
});

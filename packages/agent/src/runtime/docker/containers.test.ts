import assert from "node:assert/strict";
import { test } from "node:test";
import { StubEngine } from "../../testing/stub-engine.ts";
import { type Bind, Containers, LABELS, refuseSwappable } from "./containers.ts";

const bind = (app: string, source: string, writable: boolean): Bind => ({ app, source, writable });

test("rejects nested bind mounts of two apps if the outer directory is writable", () => {
  const refused = (wanted: Bind[], others: Bind[] = []) =>
    assert.throws(() => refuseSwappable(wanted, others), /mount \/data\/maps of app b lies below \/data, which app a may write/);
  const [below, above] = [bind("b", "/data/maps", false), bind("a", "/data", true)];
  refused([below], [above]);
  refused([above], [below]);
  refused([below, above]);
  refused([bind("b", "/data/maps", true)], [above]);
  for (const [wanted, other] of [
    [below, bind("a", "/data", false)],
    [below, bind("a", "/data/maps", true)],
    [below, bind("a", "/data/map", true)],
    [below, bind("a", "/data/maps/own", true)],
    [bind("b", "/data/maps", true), bind("a", "/data/maps", true)],
  ] as const)
    assert.doesNotThrow(() => refuseSwappable([wanted], [other]), JSON.stringify([wanted, other]));
});

test("reads other apps' bind mounts from the engine, except mounts of the agent's state", { timeout: 120_000 }, async () => {
  const container = (app: string, ...mounts: [Source: string, RW: boolean][]) => ({
    Labels: { [LABELS.robot]: "/state", [LABELS.app]: app },
    Mounts: [...mounts.map(([Source, RW]) => ({ Type: "bind", Source, RW })), { Type: "volume", Source: "", RW: true }],
  });
  await using stub = await StubEngine.start((_, response) =>
    response.end(JSON.stringify([container("main", ["/data", true]), container("other", ["/state/configs/other", false], ["/srv", true])])),
  );
  const found = await new Containers(stub.engine, "/state").binds("main", new AbortController().signal);
  assert.deepEqual(found, [bind("other", "/srv", true)]);
  assert.match(decodeURIComponent(stub.requests[0] ?? ""), /"roamfleet.state=\/state"/);
});

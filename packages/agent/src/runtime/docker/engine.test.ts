import assert from "node:assert/strict";
import { test } from "node:test";
import { StubEngine } from "../../testing/stub-engine.ts";
import { StepAborted, StepFailure } from "../failure.ts";

const LIMIT = { timeout: 120_000 };

test("a container engine call that hangs ends at its timeout or when aborted", LIMIT, async () => {
  await using stub = await StubEngine.start(() => {});
  const { signal } = new AbortController();
  const hang = stub.engine.use({ what: "look for an image", signal, limit_ms: 100 }, (docker) => docker.getImage("x").inspect());
  await assert.rejects(hang, (error) => error instanceof StepFailure && error.reason === "timeout");
  const calling = new AbortController();
  const called_off = stub.engine.use({ what: "describe itself", signal: calling.signal }, (docker) => {
    setImmediate(() => calling.abort());
    return docker.info();
  });
  await assert.rejects(called_off, StepAborted);
  const deaf = new AbortController();
  const never = stub.engine.use({ what: "do nothing", signal: deaf.signal }, () => {
    setImmediate(() => deaf.abort());
    return new Promise<never>(() => {});
  });
  await assert.rejects(never, StepAborted);
});

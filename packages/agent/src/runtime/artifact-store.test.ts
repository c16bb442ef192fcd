import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { ArtifactServer, plainFetcher } from "../testing/artifact-server.ts";
import { ArtifactStore } from "./artifact-store.ts";
import { StepAborted } from "./failure.ts";
import { TIMING } from "./limits.ts";

test(
  "an aborted caller stops waiting for a concurrent download of the same artifact",
  {
    timeout: 120_000,
  },
  async (t) => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "rf-artifacts-"));
    t.after(() => fs.rmSync(directory, { recursive: true }));
    await using server = await ArtifactServer.start();
    const bytes = Buffer.from("artifact");
    server.add(bytes);
    server.trouble = () => "hang";
    const release = { artifact_sha256: createHash("sha256").update(bytes).digest("hex"), artifact_size: bytes.length } as DesiredRelease;
    const store = new ArtifactStore({ directory, fetcher: plainFetcher(server.origin), clock: systemClock, timing: TIMING });
    const used: string[] = [];
    const fetch = (name: string, { signal }: AbortController) =>
      store.with(release, { signal, progress: () => {} }, async () => void used.push(name));
    const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
    const firsts = fetch("first", first);
    const seconds = fetch("second", second);
    const thirds = fetch("third", third);
    await until("the first to fetch", () => server.requests.length === 1);
    second.abort();
    await assert.rejects(seconds, StepAborted);
    server.trouble = () => undefined;
    first.abort();
    await assert.rejects(firsts, StepAborted);
    await thirds;
    assert.deepEqual(used, ["third"]);
  },
);

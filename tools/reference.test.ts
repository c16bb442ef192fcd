import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { CLOSE, DEPLOYMENT_STATUSES, ERROR_STATUS, HTTP_ERROR_STATUSES, REASONS, TARGET_STATUSES, WAITING_FOR } from "@roamfleet/protocol";
import { FrameType } from "@roamfleet/protocol/link";
import { robotMessages } from "@roamfleet/protocol/link/messages";
import { root } from "../bin/launch.mjs";
import { nextSteps } from "./demo/next-steps.ts";
import { OBJECTS, ROLE_TERMS, SECRETS, STATUSES, TERMS, WAITS } from "./glossary.ts";
import { PAGES, pathOf } from "./reference.ts";
import { readSources } from "./tidy/source.ts";

const TIMEOUT_MS = 120_000;
const page = (name: string): string => readFileSync(path.join(root, "docs", name), "utf8");

function assertNames(text: string, names: readonly (string | number)[], form: (name: string) => string = (name) => `\`${name}\``): void {
  const missing = names.filter((name) => !text.includes(form(String(name))));
  assert.deepEqual(missing, []);
}

for (const [name, make] of Object.entries(PAGES)) {
  test(`docs/reference/${name} matches the code`, () => {
    assert.equal(readFileSync(pathOf(name), "utf8"), make(), "run: node tools/run.mjs tools/reference.ts");
  });
}

test("every name in the glossary's code column is exported", () => {
  const exported = new Set(
    readSources().flatMap(({ text }) =>
      Array.from(text.matchAll(/^export (?:async )?(?:class|function|interface|const|type) (\w+)/gm), ([, name]) => name),
    ),
  );
  assert.deepEqual(
    TERMS.filter(({ code }) => code !== undefined && !exported.has(code)).map(({ term }) => term),
    [],
  );
});

test("the glossary is sorted, and each definition is a sentence", () => {
  const terms = TERMS.map(({ term }) => term);
  assert.deepEqual(terms, terms.toSorted());
  const meanings = [
    ...TERMS.map(({ meaning }) => meaning),
    ...[OBJECTS, SECRETS, ROLE_TERMS, STATUSES, WAITS].flatMap((of) => Object.values(of)),
  ];
  assert.deepEqual(
    meanings.filter((meaning) => !/^[A-Z`].*[.]$/.test(meaning)),
    [],
  );
});

test("each diff in CONTRIBUTING.md consists of existing lines of at most five files", () => {
  const read = (file: string): string => readFileSync(path.join(root, file), "utf8");
  const diffs = Array.from(read("CONTRIBUTING.md").matchAll(/^```diff\n([\s\S]*?)^```/gm), ([, diff = ""]) =>
    diff.split(/^\+\+\+ /m).slice(1),
  );
  assert.equal(diffs.length, 4);
  for (const parts of diffs) {
    assert.ok(parts.length <= 5, parts.join(""));
    for (const part of parts) {
      const [file = "", ...added] = part.trimEnd().split("\n");
      const lines = new Set(
        read(file)
          .split("\n")
          .map((line) => line.trim()),
      );
      const missing = added.map((line) => line.replace(/^\+/, "").trim()).filter((line) => line !== "…" && !lines.has(line));
      assert.deepEqual(missing, [], file);
    }
  }
});

test("the README contains the commands that the demo prints", () => {
  const data = path.join(root, ".roamfleet");
  const bundles = Object.fromEntries(
    ["1.0.0", "2.0.0"].map((version) => [version, path.join(data, "demo", `hello-robot-${version}.tar.gz`)]),
  );
  const printed = nextSteps({
    url: "http://127.0.0.1:7600",
    token: "rf_org_…",
    fleet_id: "fleet_…",
    robot_id: "rob_…",
    bundles,
    data,
    root,
    has_topics: true,
  });
  const commands = printed.split("\n").flatMap((line) => /^ {2}((?:rf|alias) .*)$/.exec(line)?.[1] ?? []);
  assert.ok(commands.length > 5, printed);
  const readme = readFileSync(path.join(root, "README.md"), "utf8").split("\n");
  assert.deepEqual(
    commands.filter((command) => !readme.includes(command)),
    [],
  );
});

test("the guide lists exactly the flags of rf-agent run", { timeout: TIMEOUT_MS }, () => {
  const { stdout, status } = spawnSync(process.execPath, [path.join(root, "packages/agent/src/main.ts"), "run", "--help"], {
    encoding: "utf8",
    timeout: TIMEOUT_MS,
  });
  assert.equal(status, 0);
  const flags = (text: string, pattern: RegExp): string[] =>
    [...new Set(Array.from(text.matchAll(pattern), ([, flag = ""]) => flag))].toSorted();
  const real = flags(stdout, /^ {2}(?:-\w, )?(--[a-z-]+)/gm).filter((flag) => flag !== "--help");
  assert.ok(real.length > 5, stdout);
  assert.deepEqual(flags(page("guide/robots.md"), /^\| `(--[a-z-]+)[^`]*` \| (?:`ROAMFLEET_\w+` )?\|/gm), real);
});

test("the guide names every status, reason and waiting state of a deployment", () => {
  assertNames(page("guide/deploying.md"), [...DEPLOYMENT_STATUSES, ...TARGET_STATUSES, ...REASONS, ...WAITING_FOR]);
});

test("the documentation names every error code, HTTP status and WebSocket close code", () => {
  assertNames(page("reference/errors.md"), [...Object.keys(ERROR_STATUS), ...Object.values(CLOSE)]);
  assertNames(page("guide/api.md"), Object.keys(ERROR_STATUS));
  const statuses = new Set(page("reference/errors.md").match(/\b[45]\d\d\b/g));
  assert.deepEqual(
    [...Object.values(ERROR_STATUS), ...HTTP_ERROR_STATUSES].filter((status) => !statuses.has(String(status))),
    [],
  );
});

test("the link protocol page names every frame type and message of the robots' link", () => {
  assertNames(page("reference/link-protocol.md"), [...Object.keys(FrameType), ...Object.keys(robotMessages)]);
});

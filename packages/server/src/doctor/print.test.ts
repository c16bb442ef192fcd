import assert from "node:assert/strict";
import { test } from "node:test";
import { type Finding, secretsOf, shownBytes, shownTime, shownUrl } from "./finding.ts";
import { printFindings, summarize } from "./examine.ts";

const PLAIN = { colors: false, columns: undefined };
const findings: Finding[] = [
  { check: "database", status: "ok", seen: "looks healthy" },
  { check: "database", status: "problem", seen: "one two three four five six seven eight", hint: "fix it\nimmediately" },
];

test("prints a check's name once, aligns its findings and puts hints below", () => {
  assert.equal(
    printFindings(findings, PLAIN),
    `✓ database         looks healthy
✗                  one two three four five six seven eight
                   → fix it
                     immediately
`,
  );
});

test("wraps long lines on a narrow terminal and keeps the indentation", () => {
  assert.equal(
    printFindings(findings.slice(1), { colors: false, columns: 50 }),
    `✗ database         one two three four five six
                   seven eight
                   → fix it
                     immediately
`,
  );
});

test("uses colors only if they are enabled", () => {
  assert.ok(!printFindings(findings, PLAIN).includes("\u001b"));
  assert.ok(printFindings(findings, { ...PLAIN, colors: true }).includes("\u001b[31m✗"));
});

test("the summary counts problems and warnings", () => {
  assert.equal(summarize([]), "no problems found");
  assert.equal(summarize(findings), "1 problem");
  assert.equal(summarize([...findings, ...findings, { check: "a", status: "warning", seen: "" }]), "2 problems, 1 warning");
});

test("formats sizes, times and URLs for people, and removes secrets from URLs", () => {
  assert.deepEqual([0, 1_000, 1_536, 256 * 1024 ** 2, 1.5 * 1024 ** 4].map(shownBytes), [
    "0 bytes",
    "1000 bytes",
    "1.5 KiB",
    "256 MiB",
    "1.5 TiB",
  ]);
  assert.deepEqual([0.42, 12.4, 3_210, 300_000].map(shownTime), ["0.4 ms", "12 ms", "3.2 s", "5 min"]);
  assert.equal(shownUrl("postgres://u:p%40ss@db:5433/plant?sslmode=require&password=x"), "postgres://db:5433/plant");
  assert.deepEqual(secretsOf("postgres://u:p%40ss@db:5433/plant"), ["p%40ss", "p@ss"]);
  assert.deepEqual(secretsOf("postgres://u@db/plant"), []);
  assert.deepEqual(secretsOf(undefined), []);
});

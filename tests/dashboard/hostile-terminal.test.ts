import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { type Dashboard, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { screen, type } from "./by-hand.ts";

const LIMIT = { skip: NO_BROWSER, timeout: 300_000 };
const DEADLINE_MS = 40_000;
/** Maximum response time of the page while a terminal draws. */
const ANSWER_MS = 5_000;
const ESC = "\u001b";

/** Control sequences with the largest counts that a parser accepts, for every final character that takes a count. */
const COUNTS = [...Array.from("@ABCDEFGHILMPSTXZ`abde"), " @", " A", "'}", "'~"].flatMap((final) =>
  ["2147483647", "999999999", "999999999;999999999"].map((count) => `x${ESC}[${count}${final}`),
);
/** Output of hostile programs, by kind of attack. */
const OUTPUT: Record<string, string> = {
  "counts of a billion": COUNTS.join(""),
  "the same with the C1 introducer": COUNTS.join("").replaceAll(`${ESC}[`, "\u009b"),
  "strings without an end": ["]0;", "Pq", "_", "^", "X", "]8;;http://"]
    .map((kind) => `${ESC}${kind}${"t".repeat(300_000)}${ESC}\\`)
    .join(""),
  "marks and joiners on one letter": `a${"\u0301".repeat(200_000)}${ESC}[999999999b${"\u200d\u007f".repeat(100_000)}`,
  "parameters without an end": `${ESC}[${"9;".repeat(200_000)}m`,
  "screen after screen": `${ESC}#8`.repeat(20_000) + `${ESC}[2J${ESC}[999L`.repeat(10_000),
};
const DONE = `${ESC}\\${ESC}c the end is reached`;

test("a terminal that draws hostile output does not make the page unresponsive", LIMIT, async (t) => {
  const directory = await mkdtemp(path.join(os.tmpdir(), "roamfleet-hostile-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const it = await openDashboard(t);
  await using robot = await LiveRobot.start(it.server, {
    robot: { shell: { user: os.userInfo().username, command: ["bash", "--norc", "--noprofile", "-i"] } },
  });
  const { page } = it;
  await t.test("draws the hostile output of a live shell in time", async () => {
    await visit(page, `/robots/${robot.id}/shell`);
    await page.getByRole("button", { name: "Open shell" }).click();
    await page.getByText("open", { exact: true }).waitFor();
    for (const [name, output] of Object.entries(OUTPUT)) {
      const file = path.join(directory, "output");
      await writeFile(file, output + DONE);
      await type(page, `clear; cat ${file}`);
      await drawn(it, page, name);
      await type(page, "clear");
      await it.server.until("an empty screen", async () => !(await screen(page)).includes("the end is reached"));
    }
    await page.getByRole("button", { name: "End shell" }).click();
    await page.locator("[data-shell-ended]").waitFor();
  });
  await t.test("draws the hostile output of a shell recording in time", async () => {
    const [session] = (await it.org.api.listShellSessions({ params: { id: robot.id } })).items;
    await it.server.until("its end", async () => {
      return (await it.org.api.getShellSession({ params: { id: session!.id } })).data.status === "ended";
    });
    for (const [name, cast] of Object.entries(CASTS)) {
      // Our recorder never writes such files, but a file may be damaged or replaced.
      await page.route("**/recording", (route) => route.fulfill({ contentType: "application/x-asciicast", body: cast }));
      await visit(page, `/shells/${session!.id}`);
      await page.getByRole("button", { name: "Go to end" }).click();
      await drawn(it, page, name);
      await page.unroute("**/recording");
    }
  });
});

const event = (at: number, kind: string, text: string): string => `[${at},"${kind}",${JSON.stringify(text)}]`;
const castOf = (...lines: string[]): string =>
  ['{"version":2,"width":80,"height":24}', ...lines, event(2_000_000_000, "o", DONE)].join("\n");
const CASTS: Record<string, string> = {
  "everything that was printed live": castOf(...Object.values(OUTPUT).map((output) => event(0.1, "o", output))),
  "sizes of a billion": castOf(
    event(0.1, "r", "1000000000x1000000000"),
    event(0.1, "r", "1000000000x1"),
    event(0.2, "o", "x".repeat(1_000)),
  ),
  "many sizes, a pause of a billion seconds": castOf(
    ...Array.from({ length: 400 }, (_, at) => event(0.1, at % 2 === 0 ? "r" : "o", `${2 + ((at * 211) % 590)}x${1 + ((at * 97) % 290)}`)),
    event(1_000_000_000, "o", "a"),
    event(1e308, "o", "b"),
  ),
  "a line of 10 MB, and a million lines that are no events": castOf(event(0.1, "o", "y".repeat(10_000_000)), "x\n".repeat(1_000_000)),
};

/** Waits until the terminal shows the end of the output, within the deadline, and checks that the page stays responsive. */
async function drawn(it: Dashboard, page: Page, what: string): Promise<void> {
  let slowest_ms = 0;
  await it.server.until(
    `${what} to be drawn`,
    async () => {
      const asked_ms = performance.now();
      const shown = await screen(page);
      slowest_ms = Math.max(slowest_ms, performance.now() - asked_ms);
      return shown.includes("the end is reached");
    },
    { deadline_ms: DEADLINE_MS, poll_ms: 50 },
  );
  assert.ok(slowest_ms < ANSWER_MS, `the page did not answer for ${Math.round(slowest_ms)} ms: ${what}`);
}

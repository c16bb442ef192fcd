import assert from "node:assert/strict";
import { appendFileSync, existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { FoxgloveServer } from "../../packages/agent/src/ros/testing/foxglove-server.ts";
import { RosbridgeServer } from "../../packages/agent/src/ros/testing/rosbridge-server.ts";
import { assertFits, axe, type Dashboard, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { picture, screen, type } from "./by-hand.ts";

const FFMPEG = existsSync("/usr/bin/ffmpeg");
const skip = NO_BROWSER === false && !FFMPEG ? "ffmpeg is not installed" : NO_BROWSER;
const TIMEOUT = 400_000;
/** Prompt of bash, and of bash as root. */
const PROMPT = /[$#]$/;

async function sees(it: Dashboard, page: Page, text: string | RegExp): Promise<void> {
  await it.server.until(`${String(text)} in the terminal`, async () => {
    const shown = await screen(page);
    return typeof text === "string" ? shown.includes(text) : text.test(shown.trimEnd());
  });
}

interface Scene {
  it: Dashboard;
  robot: LiveRobot;
  ros: RosbridgeServer;
  foxglove: FoxgloveServer;
  log_file: string;
}

const FLOAT = {
  type: "std_msgs/Float32",
  typedefs: [{ type: "std_msgs/Float32", fieldnames: ["data"], fieldtypes: ["float32"], fieldarraylen: [-1] }],
};

test("shows a robot's shell, logs, camera and topics live in the browser", { skip, timeout: TIMEOUT }, async (t) => {
  const directory = await mkdtemp(path.join(os.tmpdir(), "roamfleet-live-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const log_file = path.join(directory, "nav.log");
  await writeFile(log_file, "");
  const ros = await RosbridgeServer.start(t, "/rosapi/");
  ros.topics.set("/speed", FLOAT);
  const topic = { id: 1, topic: "/speed", schemaName: "std_msgs/msg/Float32" };
  const foxglove = await FoxgloveServer.start(t, [topic], "jazzy");
  const it = await openDashboard(t, { limits: { health_seconds: 1 } });
  await using robot = await LiveRobot.start(it.server, {
    robot: {
      shell: { user: os.userInfo().username, command: ["bash", "--norc", "--noprofile", "-i"] },
      cameras: [{ name: "front", kind: "ffmpeg", input: ["-re", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=10"] }],
      logs: { journald: false, files: [log_file], rosout: false, filters: [] },
      ros: { adapters: ["rosbridge", "foxglove"], rosbridge_url: ros.url, foxglove_url: foxglove.url },
    },
  });
  const scene: Scene = { it, robot, ros, foxglove, log_file };
  await t.test("a shell in the browser accepts input, shows colors, adapts to the window size and is recorded", () => shell(scene));
  await t.test("one megabyte of text pasted into a shell arrives completely", () => paste(scene));
  await t.test("admins can play and seek a shell recording, but other roles cannot", () => recording(scene));
  await t.test("log lines appear live, and control sequences in them have no effect", () => logs(scene));
  await t.test("a log that was empty when loaded shows records stored before its live stream opened", () => following(scene));
  await t.test("scrolling up in a log stops following it, and a button returns to the end", () => reading(scene));
  await t.test("a camera page shows successive frames", () => camera(scene));
  await t.test("shows a topic's messages as a tree and plots a numeric field", () => topics(scene));
  await t.test("shows topics of the same name in ROS 1 and ROS 2 separately, and why an adapter is disconnected", () => adapters(scene));
  await t.test("shows viewers which live features need the role operator", () => viewers(scene));
  await t.test("shows the stored logs of an offline robot and why its live tabs are unavailable", () => offline(scene));
});

async function shell({ it, robot }: Scene): Promise<void> {
  const { page } = it;
  await visit(page, `/robots/${robot.id}/shell`);
  await axe(page);
  await page.getByRole("button", { name: "Open shell" }).click();
  await sees(it, page, PROMPT);
  await type(page, String.raw`printf '\033[38;2;12;200;99m%s\033[0m\n' "$((6*7))-colored"`);
  await sees(it, page, /^42-colored/m);
  const color = await page
    .locator(".xterm-rows span", { hasText: "42-colored" })
    .first()
    .evaluate<string, unknown>("(one) => one.style.color");
  assert.notEqual(color, "", "a color in a style attribute passes the policy");
  await type(page, "stty size | tr ' ' x");
  await sees(it, page, /^\d+x\d+/m);
  const before = /^\d+x\d+/m.exec(await screen(page))?.[0];
  await page.setViewportSize({ width: 900, height: 700 });
  // Input can arrive before the new size.
  await it.server.until("another size", async () => {
    await type(page, "clear; stty size | tr ' ' x");
    return ![undefined, before].includes(/^\d+x\d+/m.exec(await screen(page))?.[0]);
  });
  await page.setViewportSize({ width: 1_440, height: 900 });
  // The shortcut that opens the command palette also reaches the shell.
  await page.keyboard.press("Control+k");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await axe(page);
  await page.getByRole("main").getByRole("link", { name: "Logs", exact: true }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.press("Control+Shift+ArrowUp");
  assert.equal(await page.evaluate(`document.activeElement.closest(".xterm") === null`), true, "the keyboard gets out of the terminal");
  await page.locator(".xterm-helper-textarea").focus();
  await type(page, "exit 3");
  await page.getByText("exit code 3").waitFor();
  await page.getByText("This session was recorded").waitFor();
  await page.getByRole("button", { name: "Open new shell" }).waitFor();
}

async function paste({ it }: Scene): Promise<void> {
  const { page } = it;
  const BYTES = 1024 * 1024;
  await page.getByRole("button", { name: "Open new shell" }).click();
  await it.server.until("a shell", async () => (await page.getByText("open", { exact: true }).count()) > 0);
  await sees(it, page, PROMPT);
  // Use raw mode, because in its default mode the terminal does not accept a line of one megabyte.
  await type(page, `stty raw -echo; echo rea''dy; head -c ${BYTES} | sha256sum | cut -c1-16; stty sane; echo don''e`);
  const text = "0123456789abcdef".repeat(BYTES / 16);
  // Until raw mode is on, the terminal buffers at most 4 KB of a line.
  await sees(it, page, "ready");
  await page.evaluate(
    `(() => {
      const data = new DataTransfer();
      data.setData("text/plain", "0123456789abcdef".repeat(${BYTES / 16}));
      document.querySelector(".xterm-helper-textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
    })()`,
  );
  await sees(it, page, "done");
  const { createHash } = await import("node:crypto");
  await sees(it, page, createHash("sha256").update(text).digest("hex").slice(0, 16));
  await page.getByRole("button", { name: "End shell" }).click();
  await page.locator("[data-shell-ended]").waitFor();
}

async function recording({ it, robot }: Scene): Promise<void> {
  const { page } = it;
  const { items } = await it.org.api.listShellSessions({ params: { id: robot.id } });
  const first = items.at(-1)!;
  await it.server.until("its end to be written", async () => {
    const { data } = await it.org.api.getShellSession({ params: { id: first.id } });
    return data.status === "ended";
  });
  await visit(page, "/shells");
  await page.getByRole("row").nth(1).waitFor();
  await axe(page);
  await visit(page, `/shells/${first.id}`);
  await page.getByLabel("Position").fill("0");
  await page.getByRole("button", { name: "Go to end" }).click();
  await it.server.until("what it showed at the end", async () => (await screen(page)).includes("exit 3"));
  await axe(page);
  await page.getByRole("button", { name: "Go to start" }).click();
  await it.server.until("what it showed at the beginning", async () => !(await screen(page)).includes("exit 3"));
  const operator = await it.as("operator");
  await visit(operator, `/shells/${first.id}`);
  await operator.getByText("Recordings are for admins").waitFor();
  await operator.context().close();
}

async function logs({ it, robot, log_file }: Scene): Promise<void> {
  const { page } = it;
  await visit(page, `/robots/${robot.id}/logs?source=${encodeURIComponent(log_file)}`);
  await page.getByText("live", { exact: true }).waitFor();
  const nasty = `ERROR <img src=x onerror=alert(1)> \u001b[31mred\u001b[0m \u001b]0;title\u0007 \u202eturned`;
  appendFileSync(log_file, `first line\n${nasty}\n${"x".repeat(10_000)}\n`);
  await page.getByText("first line").waitFor();
  const line = page.locator("[data-log-line]", { hasText: "<img src=x" });
  await line.waitFor();
  const text = await line.innerText();
  assert.match(text, /error/i);
  assert.match(text, /red ␛\]0;title␇ ⟨U\+202E⟩turned/);
  await line.getByRole("button").click();
  await line.getByText("Received").waitFor();
  await assertFits(page);
  await axe(page);
  await page.getByLabel("Search messages").fill("FIRST");
  await page.waitForURL(/q=FIRST/);
  await page.locator("mark", { hasText: "first" }).waitFor();
  await it.server.until("only what was searched for", async () => (await page.locator("[data-log-line]").count()) === 1);
  const href = await page.getByRole("link", { name: "Download", exact: true }).getAttribute("href");
  const exported = await page.request.get(href ?? "");
  assert.equal((await exported.text()).trim().split("\n").length, 1);
}

async function reading({ it, robot, log_file }: Scene): Promise<void> {
  const { page } = it;
  appendFileSync(log_file, Array.from({ length: 600 }, (_, i) => `many ${i}\n`).join(""));
  const { fleet_id } = (await it.org.api.getRobot({ params: { id: robot.id } })).data;
  await visit(page, `/fleets/${fleet_id}/logs?q=many`);
  await page.getByText("many 599").waitFor();
  const list = page.getByRole("log");
  await list.hover();
  // The page reacts to the wheel event immediately, even if a busy machine scrolls later.
  await list.dispatchEvent("wheel", { deltaY: -1 });
  await page.getByRole("button", { name: "Jump to latest" }).waitFor();
  await page.mouse.wheel(0, -3_000);
  appendFileSync(log_file, "many and one\n");
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.getByText("many and one").count(), 0);
  await it.server.until("the oldest record", async () => {
    await list.evaluate((one) => (one.scrollTop = 0));
    return (await page.getByText("many 0", { exact: true }).count()) > 0;
  });
  await page.getByRole("button", { name: "1 new" }).click();
  await page.getByText("many and one").waitFor();
  await axe(page);
}

async function following({ it, robot, log_file }: Scene): Promise<void> {
  const LINES = 150;
  const page = await it.as("admin");
  const stored = Promise.withResolvers<void>();
  await page.routeWebSocket(/\/logs/, (socket) => void stored.promise.then(() => socket.connectToServer()));
  const { fleet_id } = (await it.org.api.getRobot({ params: { id: robot.id } })).data;
  await visit(page, `/fleets/${fleet_id}/logs?q=burst`);
  await page.getByText("No records").waitFor();
  appendFileSync(log_file, Array.from({ length: LINES }, (_, i) => `burst ${i}\n`).join(""));
  await it.server.until("all of it to be stored", async () => {
    return (await it.org.api.listFleetLogs({ params: { id: fleet_id }, query: { q: "burst", limit: 200 } })).items.length === LINES;
  });
  stored.resolve();
  await page.getByText(`burst ${LINES - 1}`).waitFor();
  await page.getByRole("log").hover();
  await it.server.until("the oldest record", async () => {
    await page.mouse.wheel(0, -20_000);
    return (await page.getByText("burst 0", { exact: true }).count()) > 0;
  });
  await page.context().close();
}

async function camera({ it, robot }: Scene): Promise<void> {
  const { page } = it;
  await visit(page, `/robots/${robot.id}/camera?fps=5`);
  await page.getByText("frames/s").waitFor();
  const first = await picture(page);
  await it.server.until("another picture", async () => (await picture(page)) !== first);
  await page.locator("[data-camera-figures]", { hasText: "320 × 240" }).waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save picture" }).click()]);
  assert.match(download.suggestedFilename(), /\.jpg$/);
  await axe(page);
  await page.getByLabel("Rate").selectOption("1");
  await page.waitForURL(/fps=1/);
}

async function topics({ it, robot, ros }: Scene): Promise<void> {
  const { page } = it;
  await visit(page, `/robots/${robot.id}/topics`);
  await page.getByRole("link", { name: "std_msgs/Float32" }).click();
  await it.server.until("a subscription", () => ros.subscriptions.size > 0);
  await it.server.until("a message", async () => {
    ros.publish("/speed", { data: 1.5 });
    return (await page.locator("[data-message]").count()) > 0;
  });
  await page.getByText("rosbridge", { exact: true }).waitFor();
  await page
    .getByRole("button", { name: /data 1.5/ })
    .first()
    .click();
  await page.locator(".uplot canvas").waitFor();
  await page.waitForURL(/plot=data/);
  await axe(page);
}

async function adapters({ it, robot, foxglove }: Scene): Promise<void> {
  const { page } = it;
  await visit(page, `/robots/${robot.id}/topics`);
  await page.getByRole("link", { name: "std_msgs/Float32 · rosbridge" }).waitFor();
  await page.getByRole("link", { name: "std_msgs/msg/Float32 · foxglove" }).click();
  await page.waitForURL(/type=std_msgs/);
  await it.server.until("a message", async () => {
    foxglove.publish(1, { data: 2.5 });
    return (await page.getByRole("button", { name: /data 2.5/ }).count()) > 0;
  });
  await page.getByText("--type std_msgs/msg/Float32").waitFor();
  foxglove.stop();
  await page.getByText("foxglove connection lost:").waitFor();
  await axe(page);
  await visit(page, `/robots/${robot.id}`);
  await page.getByText("foxglove connection lost:").waitFor();
}

async function viewers({ it, robot }: Scene): Promise<void> {
  const viewer = await it.as("viewer");
  for (const tab of ["shell", "camera", "topics"]) {
    await visit(viewer, `/robots/${robot.id}/${tab}`);
    await viewer.getByText("Operator role required").waitFor();
  }
  await axe(viewer);
  await viewer.context().close();
}

async function offline({ it, robot }: Scene): Promise<void> {
  const { page } = it;
  const { id } = robot;
  await visit(page, `/robots/${id}/shell`);
  await page.getByRole("button", { name: "Open shell" }).click();
  await sees(it, page, PROMPT);
  await robot.stop();
  await page.locator("[data-shell-ended]").getByText("Robot not connected").waitFor();
  await visit(page, `/robots/${id}/logs`);
  await page.getByText("The records below were received before the robot went offline").waitFor();
  await page.getByText("many and one").waitFor();
  for (const tab of ["camera", "topics"]) {
    await visit(page, `/robots/${id}/${tab}`);
    await page.getByText("Robot not connected").first().waitFor();
    await axe(page);
  }
  await visit(page, `/robots/${id}/logs`);
  await robot.start();
  await page.getByText("live", { exact: true }).waitFor();
}

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import type { Page } from "playwright-core";
import { RosbridgeServer } from "../../packages/agent/src/ros/testing/rosbridge-server.ts";
import { ADMIN_TOKEN, type Harness } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { screen, type } from "./by-hand.ts";

const NUMBER = (name: string) => ({ type: name, fieldnames: ["data"], fieldtypes: ["float32"], fieldarraylen: [-1] });
const PUBLISH_EVERY_MS = 100;

export interface LivePage {
  name: string;
  path: string;
  /** User actions that make content appear. */
  prepare: (page: Page) => Promise<void>;
}

/** Pages of a real agent, beside the simulated ones, with a terminal, a camera and a topic. */
export interface LiveScene extends AsyncDisposable {
  pages: readonly LivePage[];
}

export async function startLiveScene(server: Harness): Promise<LiveScene> {
  const stack = new AsyncDisposableStack();
  const home = await mkdtemp(path.join(os.tmpdir(), "roamfleet-scene-"));
  stack.defer(() => rm(home, { recursive: true, force: true }));
  const rc = path.join(home, "bashrc");
  await writeFile(rc, "PS1='lift-01:~$ '\ncd\n");
  const ros = await RosbridgeServer.start({ after: (end: () => void) => stack.defer(end) }, "/rosapi/");
  for (const topic of ["/battery/voltage", "/speed"])
    ros.topics.set(topic, { type: "std_msgs/Float32", typedefs: [NUMBER("std_msgs/Float32")] });
  let at = 0;
  const timer = setInterval(
    () => ros.publish("/speed", { data: Math.round(100 * (1.2 + Math.sin((at += 1) / 6))) / 100 }),
    PUBLISH_EVERY_MS,
  );
  stack.defer(() => clearInterval(timer));
  const { api } = server.default_org;
  const fleet_id = (await api.listFleets({})).items.find(({ name }) => name === "Arms")!.id;
  const robot = await LiveRobot.start(server, {
    silent: true,
    org: { enrollmentKey: () => server.default_org.enrollmentKey({ fleet_id }) },
    robot: {
      shell: { user: os.userInfo().username, command: ["env", `HOME=${home}`, "bash", "--noprofile", "--rcfile", rc, "-i"] },
      cameras: [{ name: "front", kind: "ffmpeg", input: ["-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=10"] }],
      ros: { adapters: ["rosbridge"], rosbridge_url: ros.url },
    },
  });
  stack.use(robot);
  await api.updateRobot({ params: { id: robot.id }, body: { name: "lift-01" } });
  return {
    pages: pagesOf(robot.id, async () => {
      const sessions = (await api.listShellSessions({ params: { id: robot.id } })).items;
      return sessions.find(({ status }) => status === "ended")?.id;
    }),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const COMMANDS = ["uname -sr", "printf 'lidar \\033[32mok\\033[0m  10.0 Hz\\nimu   \\033[31mno data\\033[0m\\n'"];

/** Waits until the terminal shows the text. */
async function shows(page: Page, text: string): Promise<void> {
  await until(`the terminal to show ${text}`, async () => (await screen(page)).includes(text), { poll_ms: 100 });
}

const pagesOf = (id: string, endedShell: () => Promise<string | undefined>): LivePage[] => [
  {
    name: "robot-shell",
    path: `/robots/${id}/shell`,
    prepare: async (page) => {
      await page.getByRole("button", { name: "Open shell" }).click();
      await shows(page, "lift-01:~$");
      for (const command of COMMANDS) await type(page, command);
      await shows(page, "no data");
    },
  },
  {
    name: "robot-camera",
    path: `/robots/${id}/camera`,
    prepare: (page) => page.getByText("frames/s").waitFor(),
  },
  {
    name: "robot-topics",
    path: `/robots/${id}/topics`,
    prepare: async (page) => {
      await page.getByRole("link", { name: "/speed" }).click();
      await page.getByRole("button", { name: /^data/ }).first().click();
      await page.locator(".uplot canvas").waitFor();
      await page.waitForTimeout(3_000);
    },
  },
  {
    name: "shell",
    path: "/shells",
    prepare: async (page) => {
      // Show the recording of the previous page's shell, which ended when that page was left.
      const ended = await until("the shell to be over", endedShell, { poll_ms: 200 });
      await page.goto(`/shells/${ended}`);
      await page.getByRole("button", { name: "Go to end" }).click();
      await shows(page, "no data");
    },
  },
  {
    name: "admin",
    path: "/admin",
    prepare: async (page) => {
      await page.getByLabel("Admin token").fill(ADMIN_TOKEN);
      await page.getByRole("button", { name: "Continue" }).click();
      await page.getByRole("row").nth(1).waitFor();
    },
  },
  { name: "palette", path: "/", prepare: (page) => page.keyboard.press("Control+k") },
];

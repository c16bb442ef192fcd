import assert from "node:assert/strict";
import os from "node:os";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Channel, controlMessage, dataMessage, readMessage, type ShellParams } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { DeploymentsRig } from "../../testing/deployments-rig.ts";
import { DockerEngine, whyNoDockerd } from "../../testing/docker-engine.ts";
import { imageRelease, shellImage, STAYS_UP } from "../../testing/images.ts";
import { PodmanEngine, whyNoPodman } from "../../testing/podman-engine.ts";
import { createShells } from "./index.ts";

/** Without CAP_SYS_RESOURCE podman's default limits are refused. */
const ulimits = { nofile: { soft: 1_024, hard: 1_024 }, nproc: { soft: 1_024, hard: 1_024 } };

interface TestEngine extends AsyncDisposable {
  readonly socket: string;
}

/** Starts an app in a container, and opens shells in it. */
async function startApp(engine: TestEngine) {
  const rig = await DeploymentsRig.start({ config: { container_sockets: [engine.socket] } });
  const release = await imageRelease("v1", await shellImage(STAYS_UP), { ulimits }, rig.server);
  assert.equal((await rig.ended(rig.deploy(release))).status, "applied");
  const shells = createShells({
    clock: systemClock,
    shell: { user: os.userInfo().username },
    environment: {},
    place: (app) => rig.deployments.place(app),
    is_confined: () => false,
    state_directory: rig.state,
  });
  const pair = channelPair({ shell: shells.source });
  const open = async (params: Partial<ShellParams>) => {
    const channel: Channel = await pair.server.open("shell", "shell", { cols: 80, rows: 24, app: "main", ...params });
    let [text, errors, exit] = ["", "", undefined as Record<string, unknown> | undefined];
    const over = (async () => {
      for await (const message of channel) {
        const { data, control } = readMessage(message);
        if (data !== undefined) text += Buffer.from(data).toString("latin1");
        else if (control.type === "stderr") errors += Buffer.from(String(control["data"]), "base64").toString("utf8");
        else exit = control;
      }
    })();
    return {
      channel,
      over,
      get text() {
        return text;
      },
      get errors() {
        return errors;
      },
      get exit() {
        return exit;
      },
      type: (bytes: string | Uint8Array) => channel.write(dataMessage(Buffer.from(bytes))),
    };
  };
  return {
    rig,
    shells,
    open,
    async [Symbol.asyncDispose]() {
      await shells.ended();
      await rig[Symbol.asyncDispose]();
    },
  };
}

async function proveShells(engine: TestEngine): Promise<void> {
  await using it = await startApp(engine);
  const login = await it.open({});
  await until("the prompt", () => login.text.includes("# "));
  login.channel.close(1000, "the viewer left");

  // A separate call to the engine sets the size, which takes time. With podman, this includes the first size.
  const sizes = ["31 99", "41 111"].map((size) => `while test "$(stty size)" != '${size}'; do sleep 0.1; done; echo size ${size}`);
  const sized = await it.open({
    cols: 99,
    rows: 31,
    command: ["sh", "-c", `echo app=$ROAMFLEET_APP; ${sizes.join("; ")}; read code; exit $code`],
  });
  await until("the size", () => sized.text.includes("size 31 99") && sized.text.includes("app=main"));
  await sized.channel.write(controlMessage({ type: "resize", cols: 111, rows: 41 }));
  await until("the new size", () => sized.text.includes("size 41 111"));
  await sized.type("9\n");
  await sized.over;
  assert.deepEqual(sized.exit, { type: "exit", code: 9 });

  const all = Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i));
  const piped = await it.open({ terminal: false, command: ["sh", "-c", "cat; echo wrong >&2; exit 3"] });
  await piped.type(all);
  await piped.channel.write(controlMessage({ type: "eof" }));
  await piped.over;
  assert.deepEqual([piped.text, piped.errors, piped.exit?.["code"]], [all.toString("latin1"), "wrong\n", 3]);

  const left = await it.open({ command: ["sh", "-c", "trap '' HUP; while :; do echo left-behind; sleep 0.1; done"] });
  await until("it to run", () => left.text.includes("left-behind"));
  left.channel.close(1000, "the viewer left");
  await it.shells.ended();
  const look = await it.open({ terminal: false, command: ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"] });
  await look.over;
  assert.ok(!look.text.includes("do echo left-behind") && look.text !== "", look.text);

  const missing = await it.open({ command: ["no-such-program"] });
  await missing.over;
  assert.ok(missing.exit?.["code"] === 127 || missing.exit?.["code"] === 126 || (await missing.channel.ended).code === 4410);
}

test("opens shells in an app's container with dockerd", { timeout: 300_000, skip: whyNoDockerd() }, async () => {
  await using engine: TestEngine = await DockerEngine.start();
  await proveShells(engine);
});

test("opens shells in an app's container with podman", { timeout: 300_000, skip: whyNoPodman() }, async () => {
  await using engine: TestEngine = await PodmanEngine.start();
  await proveShells(engine);
});

/** A real agent, enrolled with ENROLL_KEY at SERVER and used only for streams. Returns the robot's id once the robot is connected. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@roamfleet/clock";
import { startAgent } from "@roamfleet/agent";
import { readConfig } from "../../packages/agent/src/config.ts";
import { ROBOT_CONFIG_DEFAULT } from "../../packages/agent/src/config-file/robot-config.ts";
import { listener } from "../listener.ts";

const { SERVER = "", ENROLL_KEY = "" } = process.env;
const state = mkdtempSync(path.join(tmpdir(), "roamfleet-bench-robot-"));
process.on("exit", () => rmSync(state, { recursive: true, force: true }));
const config = readConfig(
  { server: SERVER, enrollKey: ENROLL_KEY, state, containerSocket: "none", logLevel: "error" },
  {},
  ROBOT_CONFIG_DEFAULT,
);
const agent = await startAgent({ config, clock: systemClock });
listener((_, response) => response.writeHead(agent.connected ? 200 : 503).end(JSON.stringify({ robot_id: agent.robot_id })));

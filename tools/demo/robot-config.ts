import { writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

/**
 * Writes the robots' config file: a camera with a test picture, a shell of the user that runs the demo, metrics that
 * arrive after a minute, and the address of the demo's ROS 1
 * master, if any. Returns its path.
 */
export async function writeRobotConfig(directory: string, ros1_master_uri: string | undefined): Promise<string> {
  const file = path.join(directory, "agent.yaml");
  const lines = [
    "# What the demo's robots allow and have; see docs/guide/live-access.md.",
    "cameras:",
    "  - name: test",
    "    test_picture: true",
    "shell:",
    `  user: ${JSON.stringify(os.userInfo().username)}`,
    "metrics:",
    "  flush_seconds: 60",
    ...(ros1_master_uri === undefined ? [] : ["ros:", `  ros1_master_uri: ${JSON.stringify(ros1_master_uri)}`]),
  ];
  await writeFile(file, `${lines.join("\n")}\n`);
  return file;
}

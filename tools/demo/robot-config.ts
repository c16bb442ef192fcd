import { writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

interface DemoRobot {
  name: string;
  /** The URL of the metrics with its position. */
  metrics_url: string;
  ros1_master_uri: string | undefined;
}

/**
 * Writes a robot's config file: a camera with a test picture, a shell of the user that runs the demo, metrics that arrive after a minute,
 * among them its position, and the address of the demo's ROS 1 master, if any. Returns its path.
 */
export async function writeRobotConfig(directory: string, { name, metrics_url, ros1_master_uri }: DemoRobot): Promise<string> {
  const file = path.join(directory, `agent-${name}.yaml`);
  const lines = [
    "# What the demo's robots allow and have; see docs/guide/live-access.md.",
    "cameras:",
    "  - name: test",
    "    test_picture: true",
    "shell:",
    `  user: ${JSON.stringify(os.userInfo().username)}`,
    "metrics:",
    "  flush_seconds: 60",
    "  scrape:",
    `    - url: ${JSON.stringify(metrics_url)}`,
    ...(ros1_master_uri === undefined ? [] : ["ros:", `  ros1_master_uri: ${JSON.stringify(ros1_master_uri)}`]),
  ];
  await writeFile(file, `${lines.join("\n")}\n`);
  return file;
}

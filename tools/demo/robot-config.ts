import { writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

/** Writes the robots' own config file: a camera with a test picture, and a shell of whoever runs the demo. Answers its path. */
export async function writeRobotConfig(directory: string): Promise<string> {
  const file = path.join(directory, "agent.yaml");
  const lines = [
    "# What the demo's robots allow and have; docs/guide/live-access.md tells more.",
    "cameras:",
    "  - name: test",
    "    test_picture: true",
    "shell:",
    `  user: ${JSON.stringify(os.userInfo().username)}`,
  ];
  await writeFile(file, `${lines.join("\n")}\n`);
  return file;
}

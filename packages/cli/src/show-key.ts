import type { Client } from "@robofleet/sdk";
import type { Context } from "./context.ts";
import { line } from "./text.ts";

/** Says how a robot uses a key that is shown this once. */
export function showKeyUse(context: Context, client: Client, key: string | null): void {
  const { out } = context;
  out.line("\nThe key is not shown again. On the robot:");
  const words = ["--server", client.base_url, "--enroll-key", key ?? "", "--state", "./state"];
  // The robot's machine does not know the server's own authority either.
  if (context.pinned !== undefined) words.push("--ca-fingerprint", context.pinned);
  out.line(line`  rf-agent run ${words.join(" ")}`);
}

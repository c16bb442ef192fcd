import type { Client } from "@roamfleet/sdk";
import type { Context } from "./context.ts";
import { isLoopback } from "./credentials.ts";
import { line } from "./text.ts";

/** Prints how a robot uses a key. A loopback address would refer to the robot itself there, so the text explains that. */
export function showKeyUse(context: Context, client: Client, key: string | null): void {
  const { out } = context;
  const is_local = isLoopback(new URL(client.base_url));
  out.line(`\nThe key is not shown again. On ${is_local ? "this machine" : "the robot"}:`);
  const words = ["--server", client.base_url, "--enroll-key", key ?? "", "--state", "./state"];
  // The robot's machine does not know the server's own certificate authority either.
  if (context.pinned !== undefined) words.push("--ca-fingerprint", context.pinned);
  out.line(line`  rf-agent run ${words.join(" ")}`);
  if (!is_local) return;
  out.line("\nOn another machine, replace the loopback address with the server's. The server must then listen on the network, for");
  out.line("example `roamfleet serve --listen 0.0.0.0:7600 --tls auto`.");
}

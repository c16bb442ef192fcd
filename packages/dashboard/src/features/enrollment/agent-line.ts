import { shellLine } from "../../ui/shell-text.ts";

export interface AgentLine {
  /** The server address that robots use. */
  server: string;
  key: string;
  /** Fingerprint of the server's certificate authority, if it has one. */
  ca_fingerprint?: string | undefined;
}

const common = ({ server, key, ca_fingerprint }: AgentLine): (string | false)[] => [
  "--server",
  server,
  "--enroll-key",
  key,
  ...(ca_fingerprint === undefined ? [] : ["--ca-fingerprint", ca_fingerprint]),
  "--state",
];

/** Returns the command that enrolls and runs the agent in a terminal. */
export const runLine = (line: AgentLine): string => shellLine("rf-agent", "run", ...common(line), "./robot-state");

/** Returns the command that enrolls and installs the agent as a service. */
export const installLine = (line: AgentLine): string =>
  [
    shellLine("sudo", "rf-agent", "install", ...common(line), "/var/lib/roamfleet-agent"),
    "sudo systemctl daemon-reload && sudo systemctl enable --now roamfleet-agent",
  ].join("\n");

/** Whether an address works on this machine only. On a robot it would refer to the robot itself. */
export const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || hostname === "::1" || hostname.startsWith("127.") || hostname.endsWith(".localhost");

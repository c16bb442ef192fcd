import { shellLine } from "../../ui/shell-text.ts";

export interface AgentLine {
  /** Address of the server as robots reach it. */
  server: string;
  key: string;
  /** Of the server's own certificate authority, when it has one. */
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

/** What a robot runs to enrol at once, in the terminal. */
export const runLine = (line: AgentLine): string => shellLine("rf-agent", "run", ...common(line), "./robot-state");

/** What a robot runs to enrol and to start the agent at each boot. */
export const installLine = (line: AgentLine): string =>
  [
    shellLine("sudo", "rf-agent", "install", ...common(line), "/var/lib/roamfleet-agent"),
    "sudo systemctl daemon-reload && sudo systemctl enable --now roamfleet-agent",
  ].join("\n");

/** Whether only this machine reaches an address: a robot elsewhere would look for the server on itself. */
export const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || hostname === "::1" || hostname.startsWith("127.") || hostname.endsWith(".localhost");

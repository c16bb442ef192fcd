import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { type Flags, shellLine } from "../../ui/format.ts";

interface AgentLine {
  /** The server address that robots use. */
  server: string;
  key: string;
  /** Fingerprint of the server's certificate authority, if it has one. */
  ca_fingerprint?: string | undefined;
}

const common = ({ server, key, ca_fingerprint }: AgentLine, state: string): Flags => ({
  server,
  "enroll-key": key,
  "ca-fingerprint": ca_fingerprint,
  state,
});

/** Returns the command that enrolls and runs the agent in a terminal. */
export const runLine = (line: AgentLine): string => shellLine("rf-agent", "run", common(line, "./robot-state"));

/** Returns the command that enrolls and installs the agent as a service. */
export const installLine = (line: AgentLine): string =>
  [
    shellLine("sudo", "rf-agent", "install", common(line, "/var/lib/roamfleet-agent")),
    "sudo systemctl daemon-reload && sudo systemctl enable --now roamfleet-agent",
  ].join("\n");

/** Whether an address works on this machine only. On a robot it would refer to the robot itself. */
export const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname === "[::1]" || hostname === "::1" || hostname.startsWith("127.") || hostname.endsWith(".localhost");

/** The `rf` commands equivalent to the actions on enrollment keys. */
export const keyLines = {
  list: "rf keys list",
  revoke: (id: string) => shellLine("rf", "keys", "revoke", id),
  /** Returns the command that creates an enrollment key. If `trusted` is undefined, the server's default applies. */
  create: (key: {
    site_id: string;
    fleet_id: string;
    label: string;
    max_uses: number;
    expires_in_hours: number;
    trusted: boolean | undefined;
  }) =>
    shellLine("rf", "keys", "new", {
      site: key.site_id || "SITE",
      fleet: key.fleet_id || "FLEET",
      label: key.label || undefined,
      "max-uses": key.max_uses,
      "expires-in-hours": key.expires_in_hours,
      trusted: key.trusted === true,
      "no-trusted": key.trusted === false,
    }),
};

/** Returns the fingerprint of a PEM certificate as `sha256:…`, for `rf-agent --ca-fingerprint`; undefined if there is no certificate. */
export function fingerprintOfPem(pem: string): string | undefined {
  const base64 = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/.exec(pem)?.[1];
  if (base64 === undefined) return undefined;
  const der = Uint8Array.from(atob(base64.replace(/\s/g, "")), (character) => character.charCodeAt(0));
  return `sha256:${bytesToHex(sha256(der))}`;
}

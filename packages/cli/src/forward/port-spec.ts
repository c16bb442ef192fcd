import { usage } from "../failure.ts";

/** Maps a local port to a port that the robot reaches. */
export interface PortSpec {
  /** 0: any free port. */
  local_port: number;
  /** Host as resolved by the robot. */
  host: string;
  port: number;
}

const PORT_MAX = 65_535;
const FORMS = "LOCAL:REMOTE, LOCAL:HOST:REMOTE, or one number for both ends; LOCAL 0 picks a free port";

/** Parses `8080:80`, `8080:10.0.0.7:80`, `8080:[fd00::7]:80`, `0:80` or `80`. Throws a usage Failure. */
export function parsePortSpec(text: string): PortSpec {
  const parts = /^(?:(\d+):)?(?:(\[[^\]]+\]|[^:[\]]+):)?(\d+)$/.exec(text);
  const [, local, host = "127.0.0.1", remote] = parts ?? [];
  // `HOST:REMOTE` alone does not specify the local port.
  if (parts === null || (local === undefined && parts[2] !== undefined)) throw usage(`"${text}" is not a port mapping`, `Write ${FORMS}.`);
  const port = Number(remote);
  const local_port = local === undefined ? port : Number(local);
  if (port < 1 || port > PORT_MAX || local_port > PORT_MAX)
    throw usage(`"${text}": a port is a number from 1 to ${PORT_MAX}`, `Write ${FORMS}.`);
  return { local_port, host: host.replace(/^\[(.*)\]$/, "$1"), port };
}

/** Formats host and port. */
export const placeName = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

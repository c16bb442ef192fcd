import { usage } from "../failure.ts";

/** From a port of this machine to one that the robot reaches. */
export interface PortSpec {
  /** 0: any that is free. */
  local_port: number;
  /** As the robot sees it. */
  host: string;
  port: number;
}

const PORT_MAX = 65_535;
const FORMS = "LOCAL:REMOTE, LOCAL:HOST:REMOTE, or one number for both ends; LOCAL 0 takes a free port";

/** Reads `8080:80`, `8080:10.0.0.7:80`, `8080:[fd00::7]:80`, `0:80` or `80`. Throws a Failure of usage. */
export function parsePortSpec(text: string): PortSpec {
  const parts = /^(?:(\d+):)?(?:(\[[^\]]+\]|[^:[\]]+):)?(\d+)$/.exec(text);
  const [, local, host = "127.0.0.1", remote] = parts ?? [];
  // `HOST:REMOTE` alone would leave the local port to be guessed.
  if (parts === null || (local === undefined && parts[2] !== undefined)) throw usage(`"${text}" names no ports`, `Write ${FORMS}.`);
  const port = Number(remote);
  const local_port = local === undefined ? port : Number(local);
  if (port < 1 || port > PORT_MAX || local_port > PORT_MAX)
    throw usage(`"${text}": a port is a number from 1 to ${PORT_MAX}`, `Write ${FORMS}.`);
  return { local_port, host: host.replace(/^\[(.*)\]$/, "$1"), port };
}

/** Host and port as people write them. */
export const placeName = (host: string, port: number): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

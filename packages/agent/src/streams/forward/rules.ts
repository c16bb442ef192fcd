import { BlockList, isIP, isIPv4 } from "node:net";

const PORT_MAX = 65_535;

interface Rule {
  /** Host name in the rule, in lower case. It is compared with the requested name. */
  name: string | undefined;
  /** Addresses that the rule allows; undefined: all addresses. */
  addresses: BlockList | undefined;
  first_port: number;
  last_port: number;
}

/**
 * Rules such as `127.0.0.1:*`, `[::1]:22`, `192.168.1.0/24:8000-8100`, `lidar.local:80`, `*:443`. A rule with a name applies to requests
 * with that name. A rule with addresses also applies to names that resolve to one of them. Throws Error for an invalid rule.
 */
export class ForwardRules {
  readonly #rules: readonly Rule[];

  constructor(rules: readonly string[]) {
    this.#rules = rules.map(parseRule);
  }

  /** Returns whether a tunnel is allowed. `host` is the requested host, `address` the IP address that it resolves to. */
  allows(host: string, address: string, port: number): boolean {
    return this.#rules.some(
      ({ name, addresses, first_port, last_port }) =>
        port >= first_port &&
        port <= last_port &&
        (name === undefined
          ? addresses === undefined || addresses.check(address, isIPv4(address) ? "ipv4" : "ipv6")
          : name === host.toLowerCase()),
    );
  }
}

/** Throws Error if a rule is invalid. */
export function checkRules(rules: readonly string[]): void {
  for (const rule of rules) parseRule(rule);
}

function parseRule(text: string): Rule {
  const parts = /^(\[[^\]]*\]|[^:[\]]+):(?:(\*)|(\d+)(?:-(\d+))?)$/.exec(text.trim());
  const wrong = new Error(`"${text}" is not host:port; for example 127.0.0.1:*, [::1]:22, 192.168.1.0/24:8000-8100 or lidar.local:80`);
  if (parts === null) throw wrong;
  const [, host_part = "", any_port, first = "", last = first] = parts;
  const first_port = any_port === undefined ? Number(first) : 1;
  const last_port = any_port === undefined ? Number(last) : PORT_MAX;
  if (!isPort(first_port) || !isPort(last_port) || first_port > last_port) throw wrong;
  const bracketed = host_part.startsWith("[");
  const host = bracketed ? host_part.slice(1, -1) : host_part;
  if (host === "*" && !bracketed) return { name: undefined, addresses: undefined, first_port, last_port };
  const [network = "", bits] = host.split("/");
  const family = isIP(network);
  if (family === 0) {
    if (bracketed || !/^[\w.-]+$/.test(host)) throw wrong;
    return { name: host.toLowerCase(), addresses: undefined, first_port, last_port };
  }
  const width = family === 4 ? 32 : 128;
  const prefix = bits === undefined ? width : /^\d+$/.test(bits) ? Number(bits) : width + 1;
  if (prefix > width || bracketed !== (family === 6)) throw wrong;
  const addresses = new BlockList();
  addresses.addSubnet(network, prefix, family === 4 ? "ipv4" : "ipv6");
  return { name: undefined, addresses, first_port, last_port };
}

export const isPort = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= PORT_MAX;

import { spawnSync } from "node:child_process";

/** Prefix of interface names, which have at most 15 characters. The process id and a counter make them unique. */
const NAME = `rf${process.pid.toString(36)}`;
const SUBNETS = 4_096;
let made = 0;

function ip(...words: string[]): void {
  const { status, stderr } = spawnSync("ip", words, { encoding: "utf8" });
  if (status !== 0) throw new Error(`ip ${words.join(" ")}: ${stderr}`);
}

/** Returns why networks cannot be created here, or false. */
export function skipNetworks(): string | false {
  const probe = `${NAME}probe`;
  const { status } = spawnSync("ip", ["netns", "add", probe], { stdio: "ignore" });
  if (status !== 0) return "creating network namespaces needs root and iproute2";
  ip("netns", "delete", probe);
  return false;
}

/** One machine of a network: a namespace with one address. The machine can be disconnected from services. */
export class Machine {
  readonly address: string;
  readonly #namespace: string;

  constructor(namespace: string, address: string) {
    this.#namespace = namespace;
    this.address = address;
  }

  /** Command prefix that runs a program on this machine. */
  get within(): string[] {
    return ["ip", "netns", "exec", this.#namespace];
  }

  /** Drops all packets to and from an address, without any error. */
  cut(address: string): void {
    this.#run("ip", "route", "replace", `${address}/32`, "dev", "hole");
  }

  heal(address: string): void {
    this.#run("ip", "route", "delete", `${address}/32`, "dev", "hole");
  }

  /** @internal */
  setUp(bits: string): void {
    this.#run("ip", "link", "set", "lo", "up");
    // Create an interface pair that leads nowhere. Packets that are routed to it are lost, and packets that arrive over another route get
    // no reply.
    this.#run("ip", "link", "add", "hole", "type", "veth", "peer", "name", "end");
    this.#run("ip", "link", "set", "hole", "arp", "off", "up");
    this.#run("ip", "link", "set", "end", "up");
    this.#run("ip", "address", "add", `${this.address}/${bits}`, "dev", "wire");
    this.#run("ip", "link", "set", "wire", "up");
    this.#run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.wire.rp_filter=1");
  }

  #run(...words: string[]): void {
    ip("netns", "exec", this.#namespace, ...words);
  }
}

/** A network on this machine: services on addresses of a bridge, and servers in separate namespaces. */
export class FaultNetwork implements Disposable {
  /** Addresses of the test with its balancers, of PostgreSQL and its standby, and of NATS and S3. */
  readonly addresses: Readonly<Record<"test" | "postgres" | "standby" | "nats" | "s3", string>>;
  readonly #bridge: string;
  readonly #prefix: string;
  readonly #namespaces: string[] = [];

  constructor() {
    const number = made++;
    this.#bridge = `${NAME}b${number}`;
    const subnet = (process.pid + number) % SUBNETS;
    this.#prefix = `10.${200 + (subnet >> 8)}.${subnet & 255}`;
    const at = (last: number): string => `${this.#prefix}.${last}`;
    this.addresses = { test: at(1), postgres: at(2), standby: at(3), nats: at(4), s3: at(5) };
    ip("link", "add", this.#bridge, "type", "bridge");
    try {
      for (const address of Object.values(this.addresses)) ip("address", "add", `${address}/24`, "dev", this.#bridge);
      ip("link", "set", this.#bridge, "up");
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  addMachine(): Machine {
    const number = this.#namespaces.length + 1;
    const [namespace, wire] = [`${this.#bridge}n${number}`, `${this.#bridge}w${number}`];
    ip("netns", "add", namespace);
    this.#namespaces.push(namespace);
    ip("link", "add", wire, "type", "veth", "peer", "name", "wire", "netns", namespace);
    ip("link", "set", wire, "master", this.#bridge, "up");
    const machine = new Machine(namespace, `${this.#prefix}.${10 + number}`);
    machine.setUp("24");
    return machine;
  }

  /** Deletes the network. All processes on its machines must have ended. */
  [Symbol.dispose](): void {
    for (const namespace of this.#namespaces) spawnSync("ip", ["netns", "delete", namespace]);
    spawnSync("ip", ["link", "delete", this.#bridge]);
  }
}

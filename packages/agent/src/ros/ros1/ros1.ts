import type { RosNode } from "@foxglove/ros1";
import type { Clock, Timer } from "@roamfleet/clock";
import { errorText } from "../../disk/write-atomically.ts";
import {
  type Decode,
  type FindRosAdapter,
  LazyMessage,
  type RosAdapter,
  type RosMessage,
  type RosTopic,
  UndecodedMessage,
  addressTowards,
  ROS_MESSAGE_BYTES_MAX,
} from "../adapter.ts";
import { listOf, textsOf } from "../../json.ts";
import type { RosSettings } from "../settings.ts";
import { Ros1Master } from "./master.ts";
import type { TcpRosReader } from "./sockets.ts";

const WATCH_INTERVAL_MS = 5_000;
/** Number of consecutive calls without an answer after which the master counts as gone. A busy master may miss one. */
const MISSED_ANSWERS_MAX = 2;

interface Subscription {
  on: (message: RosMessage) => void;
  /** Message type that the publishers state; empty until the first publisher has connected. */
  type: string;
  decode: Decode;
  begun: boolean;
}

/**
 * Connects to a ROS 1 master and returns an adapter. The adapter subscribes to topics as a ROS node. It registers with the
 * master only while a topic has listeners.
 */
export const findRos1: FindRosAdapter = async ({ settings, clock, signal }) => {
  const uri = settings.ros1_master_uri;
  const address = await addressTowards(uri, clock, signal);
  if (address === undefined) return undefined;
  // Use a random name: if a second node with the same name registered, ROS would end the first one.
  const name = `/roamfleet_agent_${Buffer.from(clock.randomBytes(4)).toString("hex")}`;
  const master = new Ros1Master({ uri, clock, caller: name });
  try {
    await master.ask("getPid");
  } catch {
    return undefined;
  }
  const [run_id, distro] = await Promise.all([master.textParameter("/run_id"), master.textParameter("/rosdistro")]);
  return new Ros1Adapter({
    name,
    master,
    clock,
    run_id,
    distro: distro ?? settings.distro ?? null,
    hostname: hostnameOf(settings, address),
    address,
  });
};

/**
 * Returns the host name under which the master reaches this node. If the master is on this machine, that is the loopback
 * address; otherwise ROS_HOSTNAME, ROS_IP or the given address, in this order.
 */
function hostnameOf({ environment }: RosSettings, address: string): string {
  if (address.startsWith("127.") || address === "::1") return address;
  return environment["ROS_HOSTNAME"] ?? environment["ROS_IP"] ?? address;
}

interface Ros1Options {
  name: string;
  master: Ros1Master;
  clock: Clock;
  /** Id of the master's run. roscore sets a new id at each start. */
  run_id: string | undefined;
  distro: string | null;
  hostname: string;
  /** Local address on which the node listens for calls of the master. */
  address: string;
}

class Ros1Adapter implements RosAdapter {
  readonly name = "ros1";
  distro: string | null;
  readonly #options: Ros1Options;
  readonly #gone = Promise.withResolvers<string>();
  readonly gone = this.#gone.promise;
  readonly #subscriptions = new Map<string, Subscription>();
  readonly #watch: Timer;
  #node: Promise<RosNode> | undefined;
  #missed = 0;
  #run_id: string | undefined;

  constructor(options: Ros1Options) {
    this.#options = options;
    this.distro = options.distro;
    this.#run_id = options.run_id;
    this.#watch = options.clock.every(WATCH_INTERVAL_MS, () => this.#look());
  }

  async nodes(): Promise<string[]> {
    const state = await this.#options.master.ask("getSystemState");
    const names = listOf(state)
      .flatMap((of_kind) => listOf(of_kind))
      .flatMap((entry) => textsOf(listOf(entry)[1]));
    return [...new Set(names)].filter((name) => name !== this.#options.name);
  }

  async topics(): Promise<RosTopic[]> {
    const published = await this.#options.master.ask("getPublishedTopics", "");
    return listOf(published)
      .map(textsOf)
      .flatMap(([name, type]) => (name === undefined || type === undefined ? [] : [{ name, type }]));
  }

  async subscribe(topic: string, on: (message: RosMessage) => void): Promise<() => void> {
    const unread = (bytes: Uint8Array): UndecodedMessage => new UndecodedMessage(bytes, "the publisher did not send the message type");
    const subscription: Subscription = { on, type: "*", decode: unread, begun: false };
    this.#subscriptions.set(topic, subscription);
    const end = (): void => {
      if (this.#subscriptions.get(topic) !== subscription) return;
      this.#subscriptions.delete(topic);
      void this.#node?.then((node) => node.unsubscribe(topic)).catch(() => {});
      if (this.#subscriptions.size === 0) void this.#endNode();
    };
    try {
      // Subscribe with the wildcard type, since the publisher sends the actual type.
      (await (this.#node ??= this.#makeNode())).subscribe({ topic, dataType: "*" });
      subscription.begun = true;
    } catch (error) {
      end();
      throw error;
    }
    return end;
  }

  async close(): Promise<void> {
    this.#watch.cancel();
    this.#subscriptions.clear();
    await this.#endNode();
    this.#gone.resolve("the adapter was closed");
  }

  async #makeNode(): Promise<RosNode> {
    const [{ RosNode: Node }, { FollowerServer, TcpRosSocket }] = await Promise.all([
      import("@foxglove/ros1"),
      import("./sockets.ts"),
      import("@foxglove/rosmsg"),
      import("@foxglove/rosmsg-serialization"),
    ]);
    const { name, hostname, address, master, clock } = this.#options;
    const reader = await this.#reader();
    const node = new Node({
      name,
      hostname,
      pid: process.pid,
      rosMasterUri: master.uri,
      httpServer: new FollowerServer(address),
      tcpSocketCreate: (to) => Promise.resolve(new TcpRosSocket(to, clock, reader)),
    });
    await node.start();
    return node;
  }

  async #endNode(): Promise<void> {
    const starting = this.#node;
    this.#node = undefined;
    const node = await starting?.catch(() => undefined);
    node?.shutdown();
  }

  async #reader(): Promise<TcpRosReader> {
    const [{ parse }, { MessageReader }] = await Promise.all([import("@foxglove/rosmsg"), import("@foxglove/rosmsg-serialization")]);
    const handOn = (topic: string, bytes: Uint8Array, decode?: Decode): void => {
      const subscription = this.#subscriptions.get(topic);
      if (subscription === undefined) return;
      subscription.on(new LazyMessage(subscription.type, this.#options.clock.now(), bytes, decode ?? subscription.decode));
    };
    return {
      header: (topic, header) => {
        const subscription = this.#subscriptions.get(topic);
        if (subscription === undefined || header.has("error")) return;
        subscription.type = header.get("type") ?? "*";
        try {
          const message_reader = new MessageReader(parse(header.get("message_definition") ?? ""));
          subscription.decode = (bytes) => message_reader.readMessage(bytes);
        } catch (error) {
          const reason = `the definition of the message type cannot be read (${errorText(error)})`;
          subscription.decode = (bytes) => new UndecodedMessage(bytes, reason);
        }
      },
      message: (topic, bytes) => handOn(topic, bytes),
      oversized: (topic, bytes) => {
        const reason = `the message has ${bytes} bytes, over the limit of ${ROS_MESSAGE_BYTES_MAX}`;
        handOn(topic, new Uint8Array(), (none) => new UndecodedMessage(none, reason));
      },
    };
  }

  /**
   * Polls the master, since no event reports that it has ended or restarted. A restarted master has lost this node's
   * registration.
   */
  async #look(): Promise<void> {
    const { master } = this.#options;
    try {
      await master.ask("getPid");
      this.#missed = 0;
    } catch (error) {
      this.#missed += 1;
      const is_refused = error instanceof Error && "code" in error && error.code === "ECONNREFUSED";
      if (is_refused || this.#missed >= MISSED_ANSWERS_MAX) this.#gone.resolve(errorText(error));
      return;
    }
    const run_id = await master.textParameter("/run_id");
    if (run_id !== undefined && this.#run_id !== undefined && run_id !== this.#run_id) return this.#gone.resolve("roscore was restarted");
    // The id and the distribution may still be missing: roscore sets them a moment after its master begins to answer.
    this.#run_id ??= run_id;
    this.distro ??= (await master.textParameter("/rosdistro")) ?? null;
    const node = await this.#node?.catch(() => undefined);
    const dropped = [...this.#subscriptions].some(([topic, { begun }]) => begun && node !== undefined && !node.isSubscribedTo(topic));
    if (dropped) this.#gone.resolve("the agent's ROS node was shut down by another process");
  }
}

import type { Durability, EndpointAttributesWithTopic, HistoryKind, Reliability, SubscribeOpts, UserData } from "@foxglove/rtps";
import type { Timer } from "@roamfleet/clock";
import type { MessageReader } from "@foxglove/rosmsg2-serialization";
import { type FindRosAdapter, type RosAdapter, type RosAdapterOptions, type RosMessage, type RosTopic, LazyMessage } from "../adapter.ts";
import { Decoder } from "./definitions.ts";
import { DdsParticipant } from "./participant.ts";

/** Maximum wait for the first publisher. Participants announce themselves to a new participant immediately. */
const ANSWER_MS = 3_000;
/** Time without any publisher after which ROS counts as gone. */
const ALONE_MS = 60_000;
const ALONE_CHECK_MS = 5_000;
/** Maximum number of topics in the list of topics. */
const TOPICS_MAX = 5_000;

/** Values of enumerations of the RTPS library. They are repeated here because the library is imported only when it is needed. */
const BEST_EFFORT: Reliability = 1;
const RELIABLE: Reliability = 2;
const VOLATILE: Durability = 0;
const TRANSIENT_LOCAL: Durability = 1;
const KEEP_LAST: HistoryKind = 0;

/** Resolves with an adapter if the DDS domain has a publisher. Every ROS node is a publisher; an agent that only listens is not. */
export const findDds: FindRosAdapter = async (options) => {
  const adapter = new DdsAdapter(options);
  await adapter.start();
  if (await adapter.hasPublisher()) return adapter;
  await adapter.close();
  return undefined;
};

interface Subscription {
  dds_topic: string;
  on: (message: RosMessage) => void;
  /** One reader for each type of the topic. There are several only if publishers disagree on the type. */
  readers: Map<string, { options: SubscribeOpts; end: () => void }>;
}

/** Connects to ROS 2 directly over DDS, its network protocol. Besides the publishers, the robot needs no ROS software. */
class DdsAdapter implements RosAdapter {
  readonly name = "dds";
  readonly distro: string | null;
  readonly #options: RosAdapterOptions;
  readonly #gone = Promise.withResolvers<string>();
  readonly gone = this.#gone.promise;
  readonly #decoder: Decoder;
  readonly #subscriptions = new Map<string, Subscription>();
  #participant: DdsParticipant | undefined;
  #nodes: NodeNames | undefined;
  #alone: Timer | undefined;
  #publisherFound: () => void = () => {};
  #closed = false;

  constructor(options: RosAdapterOptions) {
    const { settings, log } = options;
    this.#options = options;
    this.distro = settings.distro ?? distroOf(settings.prefixes);
    this.#decoder = new Decoder({ prefixes: settings.prefixes, distro: this.distro, clock: options.clock, log });
  }

  async start(): Promise<void> {
    const { settings, clock, log } = this.#options;
    this.#nodes = await NodeNames.load();
    this.#participant = await DdsParticipant.start({
      domain_id: settings.domain_id ?? 0,
      localhost_only: settings.localhost_only === true,
      clock,
      log,
      received: (data) => this.#take(data),
      changed: () => this.#changed(),
    });
    const options = { topicName: DISCOVERY_INFO_TOPIC, typeName: "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_" };
    this.#participant.subscribe({ ...options, durability: TRANSIENT_LOCAL, reliability: reliability(RELIABLE), history: HISTORY });
    let alone_since = clock.monotonic();
    this.#alone = clock.every(ALONE_CHECK_MS, () => {
      if (this.#writers().length > 0) alone_since = clock.monotonic();
      else if (clock.monotonic() - alone_since > ALONE_MS) this.#end("no publishers left in the DDS domain");
    });
  }

  async hasPublisher(): Promise<boolean> {
    const { clock, signal } = this.#options;
    const over = new AbortController();
    this.#publisherFound = () => over.abort();
    if (this.#writers().length === 0) await clock.sleep(ANSWER_MS, AbortSignal.any([over.signal, signal]));
    return this.#writers().length > 0;
  }

  nodes(): string[] {
    const there = new Set(this.#writers().map(({ guidPrefix }) => guidPrefix));
    return this.#nodes?.names((participant) => there.has(participant)) ?? [];
  }

  topics(): RosTopic[] {
    const topics = new Map<string, RosTopic>();
    for (const { topicName, typeName } of this.#writers()) {
      const name = rosTopicOf(topicName);
      if (name !== undefined && topics.size < TOPICS_MAX) topics.set(name, { name, type: rosTypeOf(typeName) });
    }
    return Array.from(topics.values());
  }

  subscribe(topic: string, on: (message: RosMessage) => void): Promise<() => void> {
    const dds_topic = ddsTopicOf(topic);
    const subscription: Subscription = { dds_topic, on, readers: new Map() };
    this.#subscriptions.set(dds_topic, subscription);
    this.#match(subscription);
    return Promise.resolve(() => {
      if (this.#subscriptions.get(dds_topic) === subscription) this.#subscriptions.delete(dds_topic);
      for (const reader of subscription.readers.values()) reader.end();
      subscription.readers.clear();
    });
  }

  async close(): Promise<void> {
    this.#end("closed");
    await this.#participant?.close();
  }

  #end(reason: string): void {
    this.#closed = true;
    this.#alone?.cancel();
    this.#gone.resolve(reason);
  }

  #writers(): EndpointAttributesWithTopic[] {
    return this.#closed ? [] : (this.#participant?.writers() ?? []);
  }

  #changed(): void {
    if (this.#writers().length > 0) this.#publisherFound();
    if (!this.#closed) for (const subscription of this.#subscriptions.values()) this.#match(subscription);
  }

  /** Subscribes with the types of the publishers, and with the lowest reliability among them, so that every publisher matches. */
  #match(subscription: Subscription): void {
    const writers = this.#writers().filter(({ topicName }) => topicName === subscription.dds_topic);
    for (const typeName of new Set(writers.map((writer) => writer.typeName))) {
      const same = writers.filter((writer) => writer.typeName === typeName);
      const options: SubscribeOpts = {
        topicName: subscription.dds_topic,
        typeName,
        reliability: reliability(same.every((writer) => writer.reliability.kind === RELIABLE) ? RELIABLE : BEST_EFFORT),
        durability: same.every((writer) => writer.durability >= TRANSIENT_LOCAL) ? TRANSIENT_LOCAL : VOLATILE,
        history: HISTORY,
      };
      const before = subscription.readers.get(typeName);
      if (before !== undefined && isSame(before.options, options)) continue;
      before?.end();
      const end = this.#participant?.subscribe(options);
      if (end !== undefined) subscription.readers.set(typeName, { options, end });
    }
  }

  #take({ publication, subscription, serializedData, timestamp }: UserData): void {
    const { topicName } = subscription;
    if (topicName === undefined || this.#closed) return;
    if (topicName === DISCOVERY_INFO_TOPIC) return this.#nodes?.take(publication.guidPrefix, serializedData);
    const wanted = this.#subscriptions.get(topicName);
    if (wanted === undefined) return;
    const type = rosTypeOf(publication.typeName ?? "");
    const at = timestamp === undefined ? this.#options.clock.now() : new Date(timestamp.sec * 1_000 + timestamp.nsec / 1e6);
    this.#decoder
      .find(type)
      .then((decode) => {
        if (this.#subscriptions.get(topicName) === wanted && !this.#closed) wanted.on(new LazyMessage(type, at, serializedData, decode));
      })
      .catch((error: unknown) => this.#options.log.warn({ topic: topicName, err: error }, "a message could not be delivered"));
  }
}

/** History setting of the readers. It has no effect, since each message is passed on immediately. */
const HISTORY = { kind: KEEP_LAST, depth: 1 };
const reliability = (kind: Reliability): SubscribeOpts["reliability"] => ({ kind, maxBlockingTime: { sec: 0, nsec: 100_000_000 } });

const isSame = (a: SubscribeOpts, b: SubscribeOpts): boolean => a.durability === b.durability && a.reliability.kind === b.reliability.kind;

/** Returns the ROS distribution that a directory name contains, such as `humble` for `/opt/ros/humble`. */
function distroOf(prefixes: readonly string[]): string | null {
  for (const prefix of prefixes) {
    const [, distro] = /^\/opt\/ros\/([a-z]+)\/?$/.exec(prefix) ?? [];
    if (distro !== undefined) return distro;
  }
  return null;
}

/** The functions below convert between names in ROS 2 and names in DDS. */

const TOPIC_PREFIX = "rt/";
const DDS_TYPE = /^([A-Za-z]\w*)::(msg|srv|action)::dds_::(\w+)_$/;

/**
 * Converts a DDS topic such as `rt/chatter` to `/chatter`. Returns undefined if it is not a ROS topic, such as the requests of a
 * service.
 */
function rosTopicOf(dds_topic: string): string | undefined {
  return dds_topic.startsWith(TOPIC_PREFIX) ? dds_topic.slice(TOPIC_PREFIX.length - 1) : undefined;
}

/** Converts a ROS topic such as `/chatter` to `rt/chatter`. The leading slash is optional. */
function ddsTopicOf(topic: string): string {
  return TOPIC_PREFIX + topic.replace(/^\/+/, "");
}

/**
 * Converts a DDS type such as `std_msgs::msg::dds_::String_` to `std_msgs/msg/String`. Returns a type that is not of ROS unchanged.
 */
function rosTypeOf(dds_type: string): string {
  const parts = DDS_TYPE.exec(dds_type);
  return parts === null ? dds_type : `${parts[1]}/${parts[2]}/${parts[3]}`;
}

/** Topic on which each ROS 2 participant publishes the names of its nodes. */
const DISCOVERY_INFO_TOPIC = "ros_discovery_info";
const NODES_MAX = 1_000;

/**
 * Length of a GID in bytes: 24 up to the Humble distribution, 16 since Iron. The message definitions are built in, since the robot may
 * not have them.
 */
const GID_BYTES = [16, 24];

type DiscoveryInfo = { node_entities_info_seq: { node_namespace: string; node_name: string }[] };

/** Collects the names of ROS nodes, such as `/camera/driver`, from the messages that participants publish on ros_discovery_info. */
class NodeNames {
  readonly #by_participant = new Map<string, string[]>();
  #readers: MessageReader<DiscoveryInfo>[] = [];

  static async load(): Promise<NodeNames> {
    const { MessageReader } = await import("@foxglove/rosmsg2-serialization");
    const names = new NodeNames();
    names.#readers = GID_BYTES.map((bytes) => new MessageReader<DiscoveryInfo>(definitionsFor(bytes)));
    return names;
  }

  /** Replaces the names of one participant by those in its latest message. Ignores a message that cannot be decoded. */
  take(participant: string, bytes: Uint8Array): void {
    for (const reader of this.#readers) {
      try {
        const { node_entities_info_seq: nodes } = reader.readMessage<DiscoveryInfo>(bytes);
        // If more bytes than padding are left after decoding, the assumed GID length is wrong. Try the next one.
        if (bytes.length - reader.lastReadByteLength() >= PADDING_BYTES) continue;
        this.#by_participant.set(participant, nodes.slice(0, NODES_MAX).map(fullName));
        return;
      } catch {
        // Decoding failed, so the assumed GID length is wrong. Try the next one.
      }
    }
  }

  /** Returns the node names of all present participants, without duplicates. */
  names(is_there: (participant: string) => boolean): string[] {
    for (const participant of this.#by_participant.keys()) if (!is_there(participant)) this.#by_participant.delete(participant);
    return [...new Set(Array.from(this.#by_participant.values()).flat())];
  }
}

/** A message is padded to a multiple of this many bytes. */
const PADDING_BYTES = 4;

const fullName = ({ node_namespace, node_name }: DiscoveryInfo["node_entities_info_seq"][number]): string =>
  `${node_namespace.replace(/\/+$/, "")}/${node_name}`;

function definitionsFor(gid_bytes: number): ConstructorParameters<typeof MessageReader>[0] {
  const gids = (name: string) => ({ name, type: "rmw_dds_common/Gid", isComplex: true, isArray: true });
  return [
    {
      name: "rmw_dds_common/ParticipantEntitiesInfo",
      definitions: [
        { name: "gid", type: "rmw_dds_common/Gid", isComplex: true },
        { name: "node_entities_info_seq", type: "rmw_dds_common/NodeEntitiesInfo", isComplex: true, isArray: true },
      ],
    },
    { name: "rmw_dds_common/Gid", definitions: [{ name: "data", type: "uint8", isArray: true, arrayLength: gid_bytes }] },
    {
      name: "rmw_dds_common/NodeEntitiesInfo",
      definitions: [
        { name: "node_namespace", type: "string" },
        { name: "node_name", type: "string" },
        gids("reader_gid_seq"),
        gids("writer_gid_seq"),
      ],
    },
  ];
}

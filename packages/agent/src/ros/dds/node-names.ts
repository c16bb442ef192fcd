import type { MessageReader } from "@foxglove/rosmsg2-serialization";

/** Topic on which each participant of ROS 2 publishes its nodes. */
export const DISCOVERY_INFO_TOPIC = "ros_discovery_info";
const NODES_MAX = 1_000;

/** GID lengths of rmw_dds_common: 24 bytes until Humble, 16 since Iron. Its definitions need not be installed on the robot. */
const GID_BYTES = [16, 24];

type DiscoveryInfo = { node_entities_info_seq: { node_namespace: string; node_name: string }[] };

/** Reads names of nodes, such as `/camera/driver`, from the participants' messages in ros_discovery_info. */
export class NodeNames {
  readonly #by_participant = new Map<string, string[]>();
  #readers: MessageReader<DiscoveryInfo>[] = [];

  static async load(): Promise<NodeNames> {
    const { MessageReader } = await import("@foxglove/rosmsg2-serialization");
    const names = new NodeNames();
    names.#readers = GID_BYTES.map((bytes) => new MessageReader<DiscoveryInfo>(definitionsFor(bytes)));
    return names;
  }

  /** Replaces the names of a participant by those in its latest message; an unreadable message is ignored. */
  take(participant: string, bytes: Uint8Array): void {
    for (const reader of this.#readers) {
      try {
        const { node_entities_info_seq: nodes } = reader.readMessage<DiscoveryInfo>(bytes);
        // With the wrong length of GIDs the rest is invalid, or does not end at the end of the message.
        if (bytes.length - reader.lastReadByteLength() >= PADDING_BYTES) continue;
        this.#by_participant.set(participant, nodes.slice(0, NODES_MAX).map(fullName));
        return;
      } catch {
        // The other length is tried.
      }
    }
  }

  /** Returns each name once, of participants that are present. */
  names(is_there: (participant: string) => boolean): string[] {
    for (const participant of this.#by_participant.keys()) if (!is_there(participant)) this.#by_participant.delete(participant);
    return [...new Set(Array.from(this.#by_participant.values()).flat())];
  }
}

/** A message is padded to a multiple of this. */
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

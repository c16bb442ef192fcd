import type { MessageReader } from "@foxglove/rosmsg2-serialization";

/** Where each participant of ROS 2 says which nodes it holds. */
export const DISCOVERY_INFO_TOPIC = "ros_discovery_info";
const NODES_MAX = 1_000;

/** Of rmw_dds_common, which no robot needs to have installed with its definitions: 24 bytes until Humble, 16 from Iron on. */
const GID_BYTES = [16, 24];

type DiscoveryInfo = { node_entities_info_seq: { node_namespace: string; node_name: string }[] };

/** Reads names of nodes, such as `/camera/driver`, out of what participants say in ros_discovery_info. */
export class NodeNames {
  readonly #by_participant = new Map<string, string[]>();
  #readers: MessageReader<DiscoveryInfo>[] = [];

  static async load(): Promise<NodeNames> {
    const { MessageReader } = await import("@foxglove/rosmsg2-serialization");
    const names = new NodeNames();
    names.#readers = GID_BYTES.map((bytes) => new MessageReader<DiscoveryInfo>(definitionsFor(bytes)));
    return names;
  }

  /** What a participant said last takes the place of what it said before. What cannot be read is left out. */
  take(participant: string, bytes: Uint8Array): void {
    for (const reader of this.#readers) {
      try {
        const { node_entities_info_seq: nodes } = reader.readMessage<DiscoveryInfo>(bytes);
        // With the wrong length of GIDs what follows makes no sense, or does not end where the message does.
        if (bytes.length - reader.lastReadByteLength() >= PADDING_BYTES) continue;
        this.#by_participant.set(participant, nodes.slice(0, NODES_MAX).map(fullName));
        return;
      } catch {
        // The other length is tried.
      }
    }
  }

  /** Of participants that are there, each name once. */
  names(is_there: (participant: string) => boolean): string[] {
    for (const participant of this.#by_participant.keys()) if (!is_there(participant)) this.#by_participant.delete(participant);
    return [...new Set(Array.from(this.#by_participant.values()).flat())];
  }
}

/** A whole is aligned to as many. */
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

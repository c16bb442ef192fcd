/** Supported message versions, best first; the frames' version is the WebSocket subprotocol. */
export const LINK_PROTOCOLS = [1] as const;

/**
 * Optional features beyond the minimum of version 1. Both ends list their features, and only common ones are used:
 * - `credit`: log records and bulk are sent within credit, and bulk is acknowledged;
 * - `channels`: the other end may open channels;
 * - `ros_adapters`: health has `ros_adapters`, and a topic may be asked for with its type.
 */
export const LINK_FEATURES = ["credit", "channels", "ros_adapters"] as const;
export type LinkFeature = (typeof LINK_FEATURES)[number];

/** Returns the best common version; undefined if there is none. */
export const commonProtocol = (peer_versions: readonly number[]): number | undefined =>
  LINK_PROTOCOLS.find((one) => peer_versions.includes(one));

/** Returns the common features; an older peer lists none. */
export const commonFeatures = (peer_features: readonly string[] | undefined): LinkFeature[] =>
  LINK_FEATURES.filter((one) => peer_features?.includes(one) === true);

/** Sent with 503 instead of the upgrade: exact milliseconds until the reserved slot; Retry-After contains whole seconds. */
export const RETRY_AFTER_MS_HEADER = "retry-after-ms";
/** Id of the reserved slot: the server sends it with 503, and the robot returns it when it reconnects at that time. */
export const LINK_SLOT_HEADER = "x-robofleet-link-slot";

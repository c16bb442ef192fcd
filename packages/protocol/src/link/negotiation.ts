/**
 * Supported versions of the messages, best first. In version 1, the signature of the hello message covered only the nonce. Since version 2,
 * it covers the server's host and the TLS channel too. The version of the frames is separate: it is part of the WebSocket subprotocol.
 */
export const LINK_PROTOCOLS = [2] as const;

/**
 * Optional features beyond the minimum of a version. Both ends list their features, and only common ones are used:
 * - `credit`: log records and bulk are sent within credit, and bulk is acknowledged;
 * - `channels`: the other end may open channels;
 * - `ros_adapters`: health contains `ros_adapters`, and a request for a topic may name the type;
 * - `packed`: the robot compresses messages (`packMessage`);
 * - `health_changes`: the robot sends health when it changes, and omits lists of ROS names that did not change;
 * - `samples`: the server stores chunks of samples of metrics.
 */
export const LINK_FEATURES = ["credit", "channels", "ros_adapters", "packed", "health_changes", "samples"] as const;
export type LinkFeature = (typeof LINK_FEATURES)[number];

/** Returns the best version that both ends support; undefined if there is none. */
export const commonProtocol = (peer_versions: readonly number[]): number | undefined =>
  LINK_PROTOCOLS.find((one) => peer_versions.includes(one));

/** Returns an error message with the versions of both ends and which end to upgrade. */
export const describeNoProtocol = (server: readonly number[], agent: readonly number[]): string =>
  `the server supports version ${server.join(", ")} of the link protocol, and the agent supports version ${agent.join(", ")}: ` +
  `upgrade the ${Math.max(...agent) < Math.max(...server) ? "agent" : "server"}`;

/** Returns the features that both ends support. An older peer lists none. */
export const commonFeatures = (peer_features: readonly string[] | undefined): LinkFeature[] =>
  LINK_FEATURES.filter((one) => peer_features?.includes(one) === true);

/**
 * Header of a 503 response to an upgrade request. The server reserves a time slot for the robot's next attempt; the header contains the
 * exact milliseconds until then. Retry-After contains only whole seconds.
 */
export const RETRY_AFTER_MS_HEADER = "retry-after-ms";
/**
 * Header with the id of the time slot that the server has reserved for a robot's next attempt. The server sends it with a 503. The robot
 * returns it when it reconnects at that time.
 */
export const LINK_SLOT_HEADER = "x-roamfleet-link-slot";

/** Versions of the messages that this program speaks, best first; the frames' version is the WebSocket subprotocol. */
export const LINK_PROTOCOLS = [1] as const;

/**
 * What goes beyond the least that version 1 asks for. Both ends say what they know, and only what both know is used:
 * - `credit`: log records and bulk are sent within credit, and bulk is acknowledged;
 * - `channels`: the other end may open channels;
 * - `ros_adapters`: health has `ros_adapters`, and a topic may be asked for with its type.
 */
export const LINK_FEATURES = ["credit", "channels", "ros_adapters"] as const;
export type LinkFeature = (typeof LINK_FEATURES)[number];

/** The best version that both speak; undefined: none. */
export const commonProtocol = (theirs: readonly number[]): number | undefined => LINK_PROTOCOLS.find((one) => theirs.includes(one));

/** What both know; a peer that names none is older than the names. */
export const commonFeatures = (theirs: readonly string[] | undefined): LinkFeature[] =>
  LINK_FEATURES.filter((one) => theirs?.includes(one) === true);

/** With 503 in place of the upgrade: milliseconds until the booked slot, exactly; Retry-After says it in whole seconds. */
export const RETRY_AFTER_MS_HEADER = "retry-after-ms";
/** The booked slot: the server names it with 503, and the robot names it when it comes at its time. */
export const LINK_SLOT_HEADER = "x-robofleet-link-slot";

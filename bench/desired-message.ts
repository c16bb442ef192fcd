import { FRAME_HEADER_BYTES, type ServerMessage } from "@roamfleet/protocol/link";

/** Digits of the numbers in ids and generations, so that all messages have the same length. */
const DIGITS = 100_000;

const desired = (robot: number, filling: string): ServerMessage => ({
  type: "desired",
  generation: DIGITS + robot,
  configs: {},
  apps: {
    main: {
      release: {
        id: "rel_1",
        tag: "v1",
        kind: "bundle",
        artifact_sha256: "a".repeat(64),
        artifact_size: 1e9,
        image: null,
        manifest: { filling },
      },
      target_id: `tgt_${DIGITS + robot}`,
      deployment_id: "dep_1",
      attempt: 1,
      policy: { verify_seconds: 30 },
    },
  },
});

/**
 * Returns a function that creates the deployment message of a robot. Its frame has `bytes` bytes with its header. As in a real deployment,
 * messages differ in the target and the generation.
 */
export function desiredMessages(bytes: number): (robot: number) => ServerMessage {
  const filling = "x".repeat(bytes - FRAME_HEADER_BYTES - Buffer.byteLength(JSON.stringify(desired(0, ""))));
  return (robot) => desired(robot, filling);
}

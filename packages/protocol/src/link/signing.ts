/**
 * What a robot signs with its Ed25519 key. Each text names its purpose first, so that a signature made for one
 * purpose is worthless for another.
 */

/** Answer to the server's challenge when the link opens; the nonce is the server's, fresh for each connection. */
export const linkChallengeText = (robot_id: string, nonce: string): string => `robofleet-link-v1\n${robot_id}\n${nonce}`;

/**
 * An HTTP request of a robot (artifacts, configs): `Authorization: RobotSignature <robot_id>:<at>:<base64 signature>`.
 * `at` is milliseconds of the server's clock as the welcome message gave it: a robot's own clock may be wrong.
 */
export const httpRequestText = (robot_id: string, method: string, path: string, at: number): string =>
  `robofleet-http-v1\n${robot_id}\n${method}\n${path}\n${at}`;

export const ROBOT_SIGNATURE_SCHEME = "RobotSignature";
/** A signed request is accepted this long before and after its `at`. */
export const ROBOT_SIGNATURE_WINDOW_MS = 300_000;

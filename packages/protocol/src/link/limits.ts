/** Limits that both ends of the link use; separate from the schemas, so that the agent does not load those. */
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

/** Maximum characters of a log message. The agent truncates longer ones and reports that in `fields.truncated_bytes`. */
export const LOG_MESSAGE_CHARACTERS_MAX = 16_384;
/** Maximum number of apps on a robot. Also the maximum number of apps for which an org has releases. */
export const APPS_MAX = 256;
export const LOG_BATCH_RECORDS_MAX = 1_000;

/** Maximum bytes of a chunk of samples, as sent and stored. */
export const CHUNK_BYTES_MAX = 60_000;

/** Limits of camera requests: frames per second, pixels, and quality from 1 (worst) to 100. */
export const CAMERA_BOUNDS = {
  fps: { minimum: 0.1, maximum: 30 },
  width: { minimum: 64, maximum: 1920 },
  height: { minimum: 64, maximum: 1920 },
  quality: { minimum: 1, maximum: 100 },
} as const;

/**
 * Maximum bytes of a camera frame. A viewer that does not read costs the server the memory of two frames: one in transit and one queued.
 */
export const CAMERA_FRAME_BYTES_MAX = 512 * 1024 - 1;
/** Maximum cameras of a robot. The robot does not report further ones. */
export const CAMERAS_MAX = 64;
export const CAMERA_NAME_CHARACTERS_MAX = 100;

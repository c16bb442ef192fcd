/** Limits of camera requests: frames per second, pixels, and quality from 1 (worst) to 100. */
export const CAMERA_BOUNDS = {
  fps: { minimum: 0.1, maximum: 30 },
  width: { minimum: 64, maximum: 1920 },
  height: { minimum: 64, maximum: 1920 },
  quality: { minimum: 1, maximum: 100 },
} as const;

/** Maximum frame size. A viewer that does not read costs a server two frames: one in transit and one queued. */
export const CAMERA_FRAME_BYTES_MAX = 512 * 1024 - 1;
/** Maximum cameras of a robot; further names are not reported. */
export const CAMERAS_MAX = 64;
export const CAMERA_NAME_CHARACTERS_MAX = 100;

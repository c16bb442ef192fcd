/** What may be asked of a camera. Frames a second, pixels, and quality from 1 (worst) to 100. */
export const CAMERA_BOUNDS = {
  fps: { minimum: 0.1, maximum: 30 },
  width: { minimum: 64, maximum: 1920 },
  height: { minimum: 64, maximum: 1920 },
  quality: { minimum: 1, maximum: 100 },
} as const;

/** Longest frame that a robot sends. Two of them are what a viewer that does not read costs a server: one on its way, one that waits. */
export const CAMERA_FRAME_BYTES_MAX = 512 * 1024 - 1;
/** A robot has no more cameras than this; names beyond are not told. */
export const CAMERAS_MAX = 64;
export const CAMERA_NAME_CHARACTERS_MAX = 100;

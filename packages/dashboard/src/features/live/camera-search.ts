/** Requested camera settings. Missing ones use the robot's defaults. The bounds are those of `@roamfleet/protocol/link/limits`. */
export interface CameraSearch {
  camera?: string;
  fps?: number;
  width?: number;
  quality?: number;
}

const NAME_CHARACTERS_MAX = 100;
const BOUNDS = { fps: [0.1, 30], width: [64, 1920], quality: [1, 100] } as const;

/** Parses the URL parameters; ignores values out of bounds. */
export function readCameraSearch(search: Record<string, unknown>): CameraSearch {
  const found: CameraSearch = {};
  const camera = search["camera"];
  if ((typeof camera === "string" || typeof camera === "number") && String(camera) !== "" && String(camera).length <= NAME_CHARACTERS_MAX)
    found.camera = String(camera);
  for (const name of ["fps", "width", "quality"] as const) {
    const value = search[name];
    const [least, most] = BOUNDS[name];
    if (typeof value === "number" && value >= least && value <= most) found[name] = name === "fps" ? value : Math.round(value);
  }
  return found;
}

/** Returns the query of the stream. */
export const cameraQuery = ({ camera, fps, width, quality }: CameraSearch) => ({ camera, fps, width, quality });

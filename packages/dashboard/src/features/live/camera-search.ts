/** What is asked of a camera; absent: as the robot has it. Bounds as in `@roamfleet/protocol/link/camera`, which the server checks. */
export interface CameraSearch {
  camera?: string;
  fps?: number;
  width?: number;
  quality?: number;
}

const NAME_CHARACTERS_MAX = 100;
const BOUNDS = { fps: [0.1, 30], width: [64, 1920], quality: [1, 100] } as const;

/** Reads the search of an address; what is out of bounds is left out. */
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

/** The query of the stream. */
export const cameraQuery = ({ camera, fps, width, quality }: CameraSearch) => ({ camera, fps, width, quality });

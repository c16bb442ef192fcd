import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** The robots drive around this rectangle, in meters. */
const HALL = { width: 40, height: 24 };
const METERS_PER_SECOND = 0.8;
/** The lower left corner of the hall, in Rotterdam. */
const ORIGIN = { latitude: 51.9225, longitude: 4.4792 };
const METERS_PER_DEGREE = 111_320;

/**
 * Serves the position of each robot as metrics, as a navigation program would do. Returns the URL of the metrics of a robot. The server ends
 * with the process.
 */
export async function servePositions(names: readonly string[]): Promise<(name: string) => string> {
  const server = createServer((request, response) => {
    const at = names.indexOf((request.url ?? "").slice(1));
    response.statusCode = at === -1 ? 404 : 200;
    response.end(at === -1 ? "" : metricsAt((performance.now() / 1_000) * METERS_PER_SECOND + (at * perimeter) / names.length));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  const { port } = server.address() as AddressInfo;
  return (name) => `http://127.0.0.1:${port}/${name}`;
}

const perimeter = 2 * (HALL.width + HALL.height);

/** Returns the metrics of a robot that drove these meters from the origin, counterclockwise. */
function metricsAt(driven: number): string {
  const { width, height } = HALL;
  const along = driven % perimeter;
  const side = [width, width + height, 2 * width + height, perimeter].findIndex((end) => along < end);
  const [x, y] = [
    [along, 0],
    [width, along - width],
    [2 * width + height - along, height],
    [0, perimeter - along],
  ][side] as [number, number];
  const longitude = ORIGIN.longitude + x / METERS_PER_DEGREE / Math.cos((ORIGIN.latitude * Math.PI) / 180);
  return [
    `position_x_meters ${x.toFixed(2)}`,
    `position_y_meters ${y.toFixed(2)}`,
    `position_latitude_degrees ${(ORIGIN.latitude + y / METERS_PER_DEGREE).toFixed(7)}`,
    `position_longitude_degrees ${longitude.toFixed(7)}`,
    // As a compass shows it, because the robot reports geographic coordinates.
    `position_heading_degrees ${[90, 0, 270, 180][side]}`,
    "",
  ].join("\n");
}

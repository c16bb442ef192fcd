import { ChunkError, decodeChunk, type Series } from "@roamfleet/protocol/link";

/** Returns the series of a stored chunk; none if it is damaged, so that the others stay readable. */
export function seriesOf(chunk: Buffer): Series[] {
  try {
    return decodeChunk(chunk);
  } catch (error) {
    if (error instanceof ChunkError) return [];
    throw error;
  }
}

/** Whether a series is of this metric and has these labels. It may have further ones. */
export const isSeriesOf = (series: Pick<Series, "name" | "labels">, name: string, labels: Readonly<Record<string, string>> = {}): boolean =>
  series.name === name && Object.entries(labels).every(([key, value]) => series.labels[key] === value);

/** Returns a key that is the same for equal labels in any order. */
export const labelsKey = ({ labels }: Pick<Series, "labels">): string => JSON.stringify(Object.entries(labels).toSorted());

export const HEALTH_RANGES = { "1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000 } as const;
export type HealthRange = keyof typeof HEALTH_RANGES;

export interface HealthSearch {
  range?: HealthRange;
}

export const readHealthRange = ({ range }: Record<string, unknown>): HealthSearch =>
  typeof range === "string" && Object.hasOwn(HEALTH_RANGES, range) ? { range: range as HealthRange } : {};

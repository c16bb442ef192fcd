const HUES = [25, 60, 110, 150, 195, 240, 285, 330] as const;

/** Returns a color for a robot's log lines, derived from its ID. All colors have the same lightness for contrast. */
export function robotColour(robot_id: string): string {
  let hash = 0;
  for (const character of robot_id) hash = (Math.imul(hash, 31) + character.charCodeAt(0)) | 0;
  const hue = HUES[Math.abs(hash) % HUES.length];
  return `light-dark(oklch(0.45 0.13 ${hue}), oklch(0.82 0.11 ${hue}))`;
}

const HUES = [25, 60, 110, 150, 195, 240, 285, 330] as const;

/** A colour of a robot's own, to tell lines apart beside its name: as light as every other, so that each can be read. */
export function robotColour(robot_id: string): string {
  let hash = 0;
  for (const character of robot_id) hash = (Math.imul(hash, 31) + character.charCodeAt(0)) | 0;
  const hue = HUES[Math.abs(hash) % HUES.length];
  return `light-dark(oklch(0.45 0.13 ${hue}), oklch(0.82 0.11 ${hue}))`;
}

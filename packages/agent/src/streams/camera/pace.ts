/** What a line let through in a time. Bytes of frames, milliseconds. */
export interface Carried {
  elapsed_ms: number;
  /** Part of the time in which a frame waited to leave. */
  blocked_ms: number;
  bytes: number;
  frames: number;
}

/** What is sent until more is known. */
export interface Pace {
  /** Frames a second, at most what was asked for. */
  fps: number;
  /** How much of quality and size is given up: 0 is what was asked for. */
  level: number;
  /** Bytes a second that the line is believed to carry; Infinity while nothing was seen of its end. */
  budget: number;
  /** Typical length of a frame at this level; 0 while none was sent. */
  frame_bytes: number;
  /** Observations since the level changed. */
  age: number;
  /** Observations in a row after which a level less would do. */
  ease: number;
}

/** While frames wait for so much of the time, the line shows what it carries; with less there is room. */
const BUSY = 0.6;
/** Of what a line carries, so that what else is on it, and each frame, gets through at once. */
const HEADROOM = 0.85;
const GROWTH = 1.1;
/** A line that is believed to carry so many times what is asked for is no limit. */
const NEED_FACTOR = 4;
/** Before quality and size are given up, the rate goes down to this, or to what was asked for when that is less. */
const FPS_FLOOR = 3;
const FPS_MIN = 0.2;
/** A level costs about a third of a frame's bytes. */
const LEVEL_GAIN = 1.8;
/** Observations that a level has before the next: the source starts anew with each. */
const AGE_MIN = 3;
/** Observations in which a better level has to look possible first; it is twice as many steps as the way down. */
const EASE_MIN = 10;

export const firstPace = (asked_fps: number): Pace => ({ fps: asked_fps, level: 0, budget: Infinity, frame_bytes: 0, age: 0, ease: 0 });

/**
 * Decides what is sent next from what the line has just carried. A line that is full costs rate first; when not even FPS_FLOOR frames a second are
 * left, quality and size, down to the last of `levels`. What was given up comes back in the other order, more slowly.
 */
export function nextPace(pace: Pace, asked_fps: number, levels: number, carried: Carried): Pace {
  const { bytes, frames } = carried;
  const frame_bytes = frames === 0 ? pace.frame_bytes : smooth(pace.frame_bytes, bytes / frames);
  const need = asked_fps * frame_bytes;
  const budget = nextBudget(pace.budget, carried, need);
  const affordable = frame_bytes === 0 ? asked_fps : budget / frame_bytes;
  const floor = Math.min(asked_fps, FPS_FLOOR);
  const fps = Math.min(asked_fps, Math.max(FPS_MIN, affordable));
  const age = pace.age + 1;
  if (affordable < floor && age >= AGE_MIN && pace.level < levels - 1)
    return changed(pace.level + 1, fps, budget, frame_bytes / LEVEL_GAIN);
  const eased = pace.level > 0 && affordable / LEVEL_GAIN >= Math.min(asked_fps, 2 * floor);
  const ease = eased ? pace.ease + 1 : 0;
  if (ease >= EASE_MIN) return changed(pace.level - 1, fps, budget, frame_bytes * LEVEL_GAIN);
  return { fps, level: pace.level, budget, frame_bytes, age, ease };
}

const changed = (level: number, fps: number, budget: number, frame_bytes: number): Pace => ({
  fps,
  level,
  budget,
  frame_bytes,
  age: 0,
  ease: 0,
});

const smooth = (before: number, now: number): number => (before === 0 ? now : before * 0.7 + now * 0.3);

/** A busy line shows what it carries; one with room may carry a little more, until nobody knows its end any more. */
function nextBudget(before: number, { elapsed_ms, blocked_ms, bytes }: Carried, need: number): number {
  if (blocked_ms > 0 && blocked_ms >= elapsed_ms * BUSY) return Math.max(1, ((bytes * 1_000) / blocked_ms) * HEADROOM);
  if (before === Infinity) return before;
  const grown = before * GROWTH;
  return need > 0 && grown > need * NEED_FACTOR ? Infinity : grown;
}

/** What the network carried in an interval. Bytes of frames, milliseconds. */
export interface Carried {
  elapsed_ms: number;
  /** Part of the interval in which a frame waited to be sent. */
  blocked_ms: number;
  bytes: number;
  frames: number;
}

/** The current rate and quality. */
export interface Pace {
  /** Frames per second, at most the requested rate. */
  fps: number;
  /** Reduction of quality and size: 0 is as requested. */
  level: number;
  /** Estimated capacity of the network in bytes per second; Infinity while no limit was seen. */
  budget: number;
  /** Typical length of a frame at this level; 0 before the first frame. */
  frame_bytes: number;
  /** Observations since the level changed. */
  age: number;
  /** Consecutive observations in which a better level would fit. */
  ease: number;
}

/** If frames wait for this fraction of the time, the throughput is the network's capacity; otherwise there is room. */
const BUSY = 0.6;
/** Fraction of the capacity that is used, so that other traffic, and each frame, passes without delay. */
const HEADROOM = 0.85;
const GROWTH = 1.1;
/** A budget of so many times the requested rate counts as unlimited. */
const NEED_FACTOR = 4;
/** Before quality and size are reduced, the rate goes down to this, or to the requested rate if that is lower. */
const FPS_FLOOR = 3;
const FPS_MIN = 0.2;
/** Factor by which a level is assumed to reduce a frame's bytes. */
const LEVEL_GAIN = 1.8;
/** Minimum observations before the next reduction: the source restarts with each level. */
const AGE_MIN = 3;
/** Consecutive observations in which a better level must fit before it is used. Twice as slow as the reduction. */
const EASE_MIN = 10;

export const firstPace = (asked_fps: number): Pace => ({ fps: asked_fps, level: 0, budget: Infinity, frame_bytes: 0, age: 0, ease: 0 });

/**
 * Computes the next pace from what the network has just carried. If it is saturated, the rate is reduced first; below FPS_FLOOR frames a second,
 * quality and size are, down to the last of `levels`. They recover in the opposite order, more slowly.
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

/** Estimates the capacity: the throughput of a saturated network. With room, the estimate grows slowly until it is unlimited. */
function nextBudget(before: number, { elapsed_ms, blocked_ms, bytes }: Carried, need: number): number {
  if (blocked_ms > 0 && blocked_ms >= elapsed_ms * BUSY) return Math.max(1, ((bytes * 1_000) / blocked_ms) * HEADROOM);
  if (before === Infinity) return before;
  const grown = before * GROWTH;
  return need > 0 && grown > need * NEED_FACTOR ? Infinity : grown;
}

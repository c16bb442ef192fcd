/**
 * Every bound of installing and running software on the robot. Tests shorten the waits; nothing else changes them.
 */
export interface Timing {
  /** Between two tries of a download or a config: grows from the first to the last value, with full jitter. */
  retry_first_ms: number;
  retry_last_ms: number;
  /**
   * Answers in a row that brought not one byte before a download is given up: with the waits above about 20 minutes. A server
   * that is out of reach or puts the robot off gave no answer.
   */
  download_tries: number;
  /** A response that sends nothing for this long is cut and tried again. */
  download_stall_ms: number;
  /** Between two restarts of a workload that ended by itself. */
  restart_first_ms: number;
  restart_last_ms: number;
  /** A workload that was up for this long starts again without a wait next time. */
  restart_reset_ms: number;
  probe_interval_ms: number;
  probe_timeout_ms: number;
  /** Between two probes once a release is verified. */
  probe_idle_interval_ms: number;
  /** How long the previous version has to prove that it lives after a rollback. */
  rollback_alive_ms: number;
  /** Fetching and unpacking, all tries together: a robot on a slow line may need a night. */
  stage_timeout_ms: number;
  /** Any other step: stopping, moving, starting, taking back. */
  step_timeout_ms: number;
  drift_interval_ms: number;
  /** How long a container engine that went away may take to come back before a step fails. */
  engine_wait_ms: number;
  /** Between two looks whether a container engine answers. */
  engine_check_ms: number;
}

export const TIMING: Timing = {
  retry_first_ms: 1_000,
  retry_last_ms: 60_000,
  download_tries: 25,
  download_stall_ms: 30_000,
  restart_first_ms: 1_000,
  restart_last_ms: 60_000,
  restart_reset_ms: 60_000,
  probe_interval_ms: 1_000,
  probe_timeout_ms: 5_000,
  probe_idle_interval_ms: 10_000,
  rollback_alive_ms: 2_000,
  stage_timeout_ms: 24 * 3_600_000,
  step_timeout_ms: 30 * 60_000,
  drift_interval_ms: 30_000,
  engine_wait_ms: 60_000,
  engine_check_ms: 30_000,
};

/** Space that a download or an archive may not eat: the robot's own software needs it. */
export const DISK_FREE_FLOOR_BYTES = 64 * 1024 * 1024;

/** An archive may grow to this many times its packed size, plus an allowance for tiny archives. */
export const UNPACK_RATIO_MAX = 200;
export const UNPACK_ALLOWANCE_BYTES = 64 * 1024 * 1024;
export const UNPACK_BYTES_MAX = 32 * 1024 * 1024 * 1024;
export const UNPACK_ENTRIES_MAX = 200_000;
export const ENTRY_PATH_BYTES_MAX = 1_024;
/** What Linux file systems allow for one name. */
export const ENTRY_NAME_BYTES_MAX = 255;
/** The disk's free space is looked at again after this many unpacked bytes. */
export const UNPACK_SPACE_CHECK_BYTES = 16 * 1024 * 1024;
export const FSYNC_PARALLEL_MAX = 8;

export const MANIFEST_BYTES_MAX = 64 * 1024;
export const MANIFEST_ARGUMENTS_MAX = 256;
export const MANIFEST_ENV_MAX = 256;
export const STOP_TIMEOUT_SECONDS_MAX = 600;
export const VERIFY_SECONDS_MAX = 86_400;
/** Probes in a row that must succeed. */
export const PROBE_STREAK = 3;
/** Endings during verification after which there is no point in waiting for its end. */
export const CRASH_LOOP_EXITS = 3;

/** Kept of a probe's or reload command's output for the message that explains a failure. */
export const OUTPUT_TAIL_CHARACTERS = 500;
/** The wire's bound for the message of a report. */
export const REPORT_MESSAGE_CHARACTERS_MAX = 4_000;
/** How long a killed process group may linger before it is given up: SIGKILL is not refused, but a disk may be stuck. */
export const KILL_WAIT_MS = 5_000;
export const RELOAD_TIMEOUT_MS = 10_000;

export const CONFIG_BYTES_MAX = 16 * 1024 * 1024;

/** One call of the container engine, but for those that move an image. */
export const ENGINE_CALL_MS = 60_000;
/** An engine that says nothing of a load or a pull for this long is given up. */
export const ENGINE_STALL_MS = 5 * 60_000;
/** A load or a pull, however well it goes on: in a day a robot has better to do. */
export const ENGINE_MOVE_MS = 24 * 3_600_000;
/** One that did not answer for this long is no longer announced. */
export const ENGINE_GONE_MS = 10 * 60_000;
/** One line of an engine's progress, and the JSON parts of an image archive. */
export const ENGINE_LINE_BYTES_MAX = 1024 * 1024;
export const IMAGE_JSON_BYTES_MAX = 8 * 1024 * 1024;
export const IMAGE_LAYERS_MAX = 512;
/** What the engine keeps of a container's output; the agent's own spool has the rest. */
export const CONTAINER_LOG_BYTES_MAX = 10 * 1024 * 1024;

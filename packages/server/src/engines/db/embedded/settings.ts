import { SOCKET_PORT } from "./socket-directory.ts";

/** PostgreSQL settings, name to value, as on its command line. */
export type Parameters = Readonly<Record<string, string>>;

/**
 * Settings by which a file in the database's directory could make PostgreSQL run a command or load a library. The command line
 * overrides every such file, so a directory that was restored from a tampered backup runs neither.
 */
const NO_COMMANDS: Parameters = {
  archive_mode: "off",
  archive_command: "",
  archive_library: "",
  archive_cleanup_command: "",
  restore_command: "",
  recovery_end_command: "",
  ssl: "off",
  ssl_passphrase_command: "",
  shared_preload_libraries: "",
  session_preload_libraries: "",
  local_preload_libraries: "",
  dynamic_library_path: "$libdir",
};

/**
 * What we set against PostgreSQL's defaults. Given on the command line, so that a database made by an older
 * Roamfleet, restored or upgraded, runs with the settings of the program that starts it.
 */
export function settingsFor(socketDirectory: string, parameters: Parameters): Record<string, string> {
  return {
    // The only way in is a socket inside a 0700 directory: no port, no password to keep.
    listen_addresses: "",
    // A list: quoted, because a path may contain a comma.
    unix_socket_directories: `"${socketDirectory.replaceAll('"', '""')}"`,
    unix_socket_permissions: "0700",
    port: String(SOCKET_PORT),
    // A small machine that also runs the server: a quarter of 512 MiB, and connections for a few pools.
    shared_buffers: "128MB",
    max_connections: "100",
    // An acknowledged write survives a power cut.
    fsync: "on",
    synchronous_commit: "on",
    full_page_writes: "on",
    // Compiling short statements costs more than it saves.
    jit: "off",
    timezone: "UTC",
    log_timezone: "UTC",
    log_destination: "stderr",
    logging_collector: "off",
    // Errors of statements go to the client that sent them. What they quote (rows, parameters) must not be kept in a file.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_parameter_max_length: "0",
    log_parameter_max_length_on_error: "0",
    log_checkpoints: "off",
    ...NO_COMMANDS,
    ...parameters,
  };
}

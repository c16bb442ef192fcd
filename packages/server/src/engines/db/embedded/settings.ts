import { SOCKET_PORT } from "./socket-directory.ts";

/** PostgreSQL settings by name, as on its command line. */
export type Parameters = Readonly<Record<string, string>>;

/**
 * Settings with which a file in the database's directory could make PostgreSQL run a command or load a library. The command line overrides
 * all files, so a directory restored from a tampered backup cannot do that.
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
 * Returns our settings that differ from PostgreSQL's defaults. They are on the command line, so that a database of an older Roamfleet,
 * restored or upgraded, uses the settings of the running program.
 */
export function settingsFor(socketDirectory: string, parameters: Parameters): Record<string, string> {
  return {
    // The only access is a socket inside a 0700 directory: no port and no password.
    listen_addresses: "",
    // The setting is a list. It is quoted, because a path may contain a comma.
    unix_socket_directories: `"${socketDirectory.replaceAll('"', '""')}"`,
    unix_socket_permissions: "0700",
    port: String(SOCKET_PORT),
    // For a small machine that also runs the server: a quarter of 512 MiB, and connections for a few pools.
    shared_buffers: "128MB",
    max_connections: "100",
    // An acknowledged write survives a power failure.
    fsync: "on",
    synchronous_commit: "on",
    full_page_writes: "on",
    // Compiling short statements costs more than it saves.
    jit: "off",
    timezone: "UTC",
    log_timezone: "UTC",
    log_destination: "stderr",
    logging_collector: "off",
    // Clients get the errors of their statements. Errors quote rows and parameters, which must not be written to a file.
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

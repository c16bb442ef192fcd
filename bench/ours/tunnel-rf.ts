/** `rf robots forward` of one port of a robot, without its command line. Returns the local port. */
import { createClient } from "@roamfleet/sdk";
import { Forwarder } from "../../packages/cli/src/forward/forwarder.ts";
import { listener } from "../listener.ts";

const { SERVER = "", TOKEN = "", ROBOT_ID = "", REMOTE_PORT = "" } = process.env;
const forwarder = new Forwarder({
  client: createClient({ base_url: SERVER, token: TOKEN }),
  robot_id: ROBOT_ID,
  signal: new AbortController().signal,
  note: (text) => process.stderr.write(`${text}\n`),
});
const tcp_port = await forwarder.listen({ local_port: 0, host: "127.0.0.1", port: Number(REMOTE_PORT) }, "127.0.0.1");
listener((_, response) => response.end(JSON.stringify({ tcp_port })));

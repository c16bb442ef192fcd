import { createSocket, type Socket } from "node:dgram";
import { EventEmitter } from "node:events";
import { networkInterfaces } from "node:os";
import { errorText } from "../../disk/write-atomically.ts";
import type { UdpAddress, UdpBindOptions, UdpSocket } from "@foxglove/rtps";

const SEND_BUFFER_BYTES = 256 * 1024;
const RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024;
const INTERFACES_MAX = 16;

/** Returns the addresses of this machine that DDS uses for multicast. The agent announces the first one as its own address. */
export function ddsAddresses(localhost_only: boolean): string[] {
  if (localhost_only) return [LOOPBACK];
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outer = all.filter(({ family, internal }) => family === "IPv4" && !internal).map(({ address }) => address);
  return [...outer.slice(0, INTERFACES_MAX), LOOPBACK];
}

const LOOPBACK = "127.0.0.1";

const isMulticast = (address: string): boolean => {
  const first = Number(address.slice(0, address.indexOf(".")));
  return first >= 224 && first < 240;
};

interface DdsSocketOptions {
  addresses: readonly string[];
  /** Checks each datagram. If it returns false, the datagram is not passed to the library. */
  screen: (bytes: Uint8Array) => boolean;
  /** Called with an exception of the library. */
  failed: (error: unknown) => void;
}

/**
 * The sockets of an RTPS participant. They differ from the library's in three ways. They receive and send multicast on every interface,
 * since a robot has several and ROS may be restricted to the loopback. A failed send counts as a lost datagram and causes no unhandled
 * rejection. An exception while a message is processed is caught.
 */
export class DdsSocket extends EventEmitter implements UdpSocket {
  readonly #socket: Socket;
  readonly #addresses: readonly string[];
  #closed = false;

  constructor({ addresses, screen, failed }: DdsSocketOptions) {
    super();
    this.#addresses = addresses;
    this.#socket = createSocket({ type: "udp4", reuseAddr: true, sendBufferSize: SEND_BUFFER_BYTES, recvBufferSize: RECEIVE_BUFFER_BYTES });
    this.#socket.on("close", () => this.emit("close"));
    this.#socket.on("error", (error) => {
      if (this.listenerCount("error") > 0) this.emit("error", error);
    });
    this.#socket.on("message", (bytes, from) => {
      try {
        if (screen(bytes)) this.emit("message", bytes, from);
      } catch (error) {
        failed(error);
      }
    });
  }

  remoteAddress(): Promise<UdpAddress | undefined> {
    return Promise.resolve(undefined);
  }

  localAddress(): Promise<UdpAddress | undefined> {
    return Promise.resolve(this.#closed ? undefined : this.#socket.address());
  }

  /** Joins a multicast group on every interface that supports multicast. Rejects if no interface does. */
  addMembership(group: string): Promise<void> {
    let problem: unknown = new Error("no network interface");
    let joined = 0;
    for (const address of this.#addresses) {
      try {
        this.#socket.addMembership(group, address);
        joined += 1;
      } catch (error) {
        problem = error;
      }
    }
    return joined > 0 ? Promise.resolve() : Promise.reject(new Error(`no multicast: ${errorText(problem)}`));
  }

  dropMembership(): Promise<void> {
    return Promise.resolve();
  }

  bind({ port, address }: UdpBindOptions): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.once("error", reject);
      this.#socket.bind({ ...(port === undefined ? {} : { port }), ...(address === undefined ? {} : { address }) }, () => {
        this.#socket.off("error", reject);
        resolve();
      });
    });
  }

  /** Sends a datagram. If sending fails, the datagram counts as lost on the network. */
  async send(data: Uint8Array, offset: number, length: number, port: number, address: string): Promise<void> {
    if (this.#closed) return;
    if (!isMulticast(address)) return await this.#sendOne(data, offset, length, port, address);
    for (const from of this.#addresses) {
      if (this.#closed) return;
      try {
        this.#socket.setMulticastInterface(from);
      } catch {
        continue;
      }
      await this.#sendOne(data, offset, length, port, address);
    }
  }

  #sendOne(data: Uint8Array, offset: number, length: number, port: number, address: string): Promise<void> {
    return new Promise((resolve) => {
      try {
        this.#socket.send(data, offset, length, port, address, () => resolve());
      } catch {
        resolve();
      }
    });
  }

  setBroadcast(flag: boolean): Promise<void> {
    this.#socket.setBroadcast(flag);
    return Promise.resolve();
  }

  setMulticastInterface(address: string): Promise<void> {
    this.#socket.setMulticastInterface(address);
    return Promise.resolve();
  }

  setMulticastLoopback(flag: boolean): Promise<void> {
    this.#socket.setMulticastLoopback(flag);
    return Promise.resolve();
  }

  setMulticastTTL(ttl: number): Promise<void> {
    this.#socket.setMulticastTTL(ttl);
    return Promise.resolve();
  }

  close(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    this.#closed = true;
    return new Promise((resolve) => this.#socket.close(() => resolve()));
  }

  dispose(): Promise<void> {
    return this.close();
  }
}

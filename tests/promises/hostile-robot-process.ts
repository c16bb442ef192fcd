import { createPrivateKey } from "node:crypto";
import { type Attack, frameAttacks, messageAttacks, webSocketAttacks } from "../hostile/hostile-frames.ts";
import { RawRobot } from "../hostile/raw-robot.ts";

/** Options of the hostile robot's process, as JSON in its first argument. */
export interface HostileOrder {
  url: string;
  id: string;
  public_key: string;
  /** Private key in PEM (PKCS #8). */
  private_key: string;
  /** One of this many frame attacks is performed, with a different offset in each round. */
  every: number;
  /** Total number of frames; rounds repeat until it is reached. */
  frames: number;
  /** Frames of one attack, and its maximum duration. */
  frames_of_attack: number;
  attack_ms: number;
}

export interface HostileReport {
  frames: number;
  attacks: number;
  kinds: number;
}

const order = JSON.parse(process.argv[2]!) as HostileOrder;
const robot = {
  id: order.id,
  identity: { public_key: order.public_key, private_key: createPrivateKey(order.private_key) },
};

/** Runs one attack on a separate link until the link is closed or the attack's time is over. */
async function perform(attack: Attack): Promise<number> {
  const raw = await RawRobot.connect(order.url, robot);
  const until = performance.now() + order.attack_ms;
  let frames = 0;
  while (raw.open && frames < order.frames_of_attack && performance.now() < until) {
    const block = attack.next();
    await raw.write(block.bytes, Math.max(1, until - performance.now()));
    frames += block.frames;
  }
  await raw.end();
  return frames;
}

const report: HostileReport = { frames: 0, attacks: 0, kinds: 0 };
const [of_frames, others] = [frameAttacks(), [...webSocketAttacks(), ...messageAttacks()]];
for (let round = 0; round === 0 || report.frames < order.frames; round += 1)
  for (const attack of [...of_frames.filter((_, i) => (i + round) % order.every === 0), ...others]) {
    report.frames += await perform(attack);
    report.attacks += 1;
  }
report.kinds = Math.min(report.attacks, of_frames.length + others.length);
process.send?.(report);

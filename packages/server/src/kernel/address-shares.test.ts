import assert from "node:assert/strict";
import { test } from "node:test";
import { AddressShares } from "./address-shares.ts";

const fill = (shares: AddressShares, address: (i: number) => string): (() => void)[] => {
  const held: (() => void)[] = [];
  while (shares.hasRoom(address(held.length))) held.push(shares.take(address(held.length)));
  return held;
};

test("a network may take as many slots as are still free, so that other networks find one", () => {
  const shares = new AddressShares(1_000);
  const first = fill(shares, () => "192.0.2.1");
  assert.equal(first.length, 500);
  const second = fill(shares, () => "192.0.2.2");
  assert.equal(second.length, 250);
  assert.equal(shares.hasRoom("192.0.2.3"), true);
  for (const release of [...first, ...first]) release();
  assert.equal(shares.taken, 250);
  assert.equal(shares.hasRoom("192.0.2.1"), true);
});

test("addresses of one IPv6 /64 share one quota", () => {
  const shares = new AddressShares(100);
  assert.equal(fill(shares, (i) => `2001:db8:1:2::${i.toString(16)}`).length, 50);
  assert.equal(shares.hasRoom("2001:db8:1:3::1"), true);
});

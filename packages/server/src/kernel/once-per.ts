/** Returns a function that creates a value once for each owner, by its key, and keeps it as long as the key. */
export function oncePer<O, V>(keyOf: (owner: O) => WeakKey, create: (owner: O) => V): (owner: O) => V {
  const made = new WeakMap<WeakKey, V>();
  return (owner) => {
    const key = keyOf(owner);
    const value = made.get(key) ?? create(owner);
    made.set(key, value);
    return value;
  };
}

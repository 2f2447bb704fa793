/** The nearest integer; of two, the even one, as in NumPy. */
export function roundHalfToEven(value) {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

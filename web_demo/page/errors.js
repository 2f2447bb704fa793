/** What the page cannot do; the message is one line for the user. */
export class UserError extends Error {}

/** A value from outside, shortened for a message. */
export function shown(value) {
  return (JSON.stringify(value) ?? "absent").slice(0, 80);
}

/** One short line of any error, for a message. */
export function reasonOf(error) {
  const [line] = String(error?.message ?? error)
    .trim()
    .split("\n");
  return line.length > 200 ? `${line.slice(0, 200)}...` : line;
}

export type Values = Readonly<Record<string, string | number>>;

/** Replace each `{name}` by its value; the result is text, never markup. */
export function fill(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

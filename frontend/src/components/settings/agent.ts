const BROWSERS: readonly [RegExp, string][] = [
  [/Edg\//, "Edge"],
  [/Firefox\//, "Firefox"],
  [/Chrom(e|ium)\//, "Chrome"],
  [/Safari\//, "Safari"],
];
const SYSTEMS: readonly [RegExp, string][] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/Linux|X11/, "Linux"],
];

/** Browser and system that a user agent string names; "" for what isn't known. */
export function agentOf(text: string): { browser: string; system: string } {
  const find = (table: readonly [RegExp, string][]) =>
    table.find(([pattern]) => pattern.test(text))?.[1] ?? "";
  return { browser: find(BROWSERS), system: find(SYSTEMS) };
}

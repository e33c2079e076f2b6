/** Dates as people say them; `now` is an argument so that tests can choose it. */
const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];
const RELATIVE_DAYS = 7;

/** A day, with the year only if it isn't this one. */
export function dateText(language: string, iso: string, now = new Date()): string {
  const date = new Date(iso);
  const year = date.getFullYear() === now.getFullYear() ? {} : { year: "numeric" as const };
  return date.toLocaleDateString(language, { day: "numeric", month: "long", ...year });
}

/** "5 minutes ago"; further away the date. */
export function agoText(language: string, iso: string, now = new Date()): string {
  const ms = new Date(iso).getTime() - now.getTime();
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  for (const [unit, size] of STEPS) {
    const n = Math.trunc(ms / size);
    if (n !== 0) {
      const isFar = unit === "day" && Math.abs(n) > RELATIVE_DAYS;
      return isFar ? dateText(language, iso, now) : format.format(n, unit);
    }
  }
  return format.format(0, "second");
}

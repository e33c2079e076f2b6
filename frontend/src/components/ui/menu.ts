/** An entry of a menu: a link or an act. */
export interface MenuItem {
  readonly label: string;
  readonly icon: string;
  readonly kind?: "danger";
  readonly href?: string;
  readonly act?: () => void;
}

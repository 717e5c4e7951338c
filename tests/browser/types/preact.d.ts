// What the page uses of Preact and htm, as TypeScript has it.

export type View = any;
type Next<T> = (next: T | ((before: T) => T)) => void;

export class Component {
  props: any;
}
export function html(strings: TemplateStringsArray, ...values: unknown[]): View;
export function render(view: View, parent: Element): void;
export function createContext<T>(value: T): { Provider: View } & { readonly value?: T };
export function useContext<T>(context: { readonly value?: T }): T;
// What begins as nothing becomes anything.
export function useState(first: null | never[]): [any, Next<any>];
export function useState<T>(first: T | (() => T)): [T, Next<T>];
export function useState<T>(): [T | undefined, Next<T | undefined>];
export function useRef(first: null): { current: any };
export function useRef<T>(first: T): { current: T };
export function useMemo<T>(make: () => T, of: unknown[]): T;
export function useCallback<T>(call: T, of: unknown[]): T;
export function useEffect(effect: () => void | (() => void), of?: unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), of?: unknown[]): void;
export function useErrorBoundary(): [any, () => void];

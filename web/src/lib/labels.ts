import type { LabelSelector } from './k8s'

/** selects tells whether a label selector selects labels; no selector selects nothing. */
export function selects(s: LabelSelector | undefined, labels: Record<string, string> | undefined): boolean {
  if (!s) {
    return false
  }
  const have = labels ?? {}
  const value = (k: string) => (Object.hasOwn(have, k) ? have[k] : undefined)
  return (
    Object.entries(s.matchLabels ?? {}).every(([k, v]) => value(k) === v) &&
    (s.matchExpressions ?? []).every((e) => {
      const v = value(e.key)
      switch (e.operator) {
        case 'In':
          return v !== undefined && (e.values ?? []).includes(v)
        case 'NotIn':
          return v === undefined || !(e.values ?? []).includes(v)
        case 'Exists':
          return v !== undefined
        case 'DoesNotExist':
          return v === undefined
      }
      return false
    })
  )
}

/** Something that labels select: an entity or a Pod with what it is called. */
export interface Labelled {
  name: string
  namespace: string
  labels: Record<string, string> | undefined
}

/** selected are the names of those that a selector meets in namespaces that are meant, sorted. */
export function selected(all: Labelled[], s: LabelSelector, meant: (namespace: string) => boolean): string[] {
  return all
    .filter((x) => meant(x.namespace) && selects(s, x.labels))
    .map((x) => x.name)
    .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }))
}

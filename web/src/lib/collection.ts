import type { Obj } from './k8s'

/** A change of one object, as the stream tells it. */
export interface Change {
  watch: string
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  object: Obj
}

/** Where a list stands: nothing came yet, it is there, or the caller may not read it. */
export type Phase = 'loading' | 'ready' | 'refused'

function key(o: Obj): string {
  return (o.metadata.namespace ?? '') + '/' + o.metadata.name
}

/**
 * Collection is one list of objects, kept by a snapshot and changes. It is not reactive itself, so
 * that ten thousand objects cost no proxies: whoever shows it reads `version`, which grows with
 * every change.
 */
export class Collection<T extends Obj = Obj> {
  phase: Phase = 'loading'
  reason = ''
  version = 0
  private objects = new Map<string, T>()
  private sorted: T[] | undefined

  snapshot(items: T[]): void {
    this.objects = new Map(items.map((o) => [key(o), o]))
    this.phase = 'ready'
    this.reason = ''
    this.touch()
  }

  change(type: Change['type'], o: T): void {
    if (type === 'DELETED') {
      this.objects.delete(key(o))
    } else {
      this.objects.set(key(o), o)
    }
    this.touch()
  }

  refuse(reason: string): void {
    this.objects.clear()
    this.phase = 'refused'
    this.reason = reason
    this.touch()
  }

  get(namespace: string | undefined, name: string): T | undefined {
    return this.objects.get((namespace ?? '') + '/' + name)
  }

  get size(): number {
    return this.objects.size
  }

  /** The objects, sorted by namespace and name. */
  list(): T[] {
    this.sorted ??= [...this.objects.entries()].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map((e) => e[1])
    return this.sorted
  }

  private touch(): void {
    this.version++
    this.sorted = undefined
  }
}

/** What the stream sends. */
export type Message =
  | { event: 'snapshot'; watch: string; items: Obj[] }
  | ({ event: 'change' } & Change)
  | { event: 'refused'; watch: string; reason: string }

/** parse reads one event of the stream; what is not understood is nothing. */
export function parse(event: string, data: string): Message | undefined {
  let v: Record<string, unknown>
  try {
    v = JSON.parse(data) as Record<string, unknown>
  } catch {
    return undefined
  }
  if (!v || typeof v.watch !== 'string') {
    return undefined
  }
  const isObject = (o: unknown): o is Obj => typeof (o as Obj | undefined)?.metadata?.name === 'string'
  switch (event) {
    case 'snapshot':
      return { event, watch: v.watch, items: Array.isArray(v.items) ? v.items.filter(isObject) : [] }
    case 'change':
      return isObject(v.object) && (v.type === 'ADDED' || v.type === 'MODIFIED' || v.type === 'DELETED')
        ? { event, watch: v.watch, type: v.type, object: v.object }
        : undefined
    case 'refused':
      return { event, watch: v.watch, reason: typeof v.reason === 'string' ? v.reason : '' }
  }
  return undefined
}

/** apply brings a message into the collections; it returns the name of the one that changed. */
export function apply(all: Record<string, Collection>, m: Message): string | undefined {
  const c = all[m.watch]
  if (!c) {
    return undefined
  }
  switch (m.event) {
    case 'snapshot':
      c.snapshot(m.items)
      break
    case 'change':
      c.change(m.type, m.object)
      break
    case 'refused':
      c.refuse(m.reason)
  }
  return m.watch
}

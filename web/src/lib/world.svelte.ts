import { proof } from './api'
import { Collection, apply, parse, type Message } from './collection'
import type { Account, AgentInfo, Entity, Event, Group, NativeService, Nic, Obj, Pod, Policy, Revision, Selector, SetCluster, Tier, VM, Vpc } from './k8s'

const collections = {
  accounts: new Collection<Account>(),
  selectors: new Collection<Selector>(),
  virtualmachines: new Collection<VM>(),
  cloudnativeservices: new Collection<NativeService>(),
  networkinterfaces: new Collection<Nic>(),
  vpcs: new Collection<Vpc>(),
  externalentities: new Collection<Entity>(),
  agentinfos: new Collection<AgentInfo>(),
  networkpolicies: new Collection<Obj>(),
  acnp: new Collection<Policy>(),
  annp: new Collection<Policy>(),
  tiers: new Collection<Tier>(),
  groups: new Collection<Group>(),
  clustergroups: new Collection<Group>(),
  namespaces: new Collection<Obj>(),
  pods: new Collection<Pod>(),
  services: new Collection<Obj>(),
  policyrevisions: new Collection<Revision>(),
  clusterpolicyrevisions: new Collection<Revision>(),
  clusters: new Collection<SetCluster>(),
  events: new Collection<Event>(),
}

export type Watch = keyof typeof collections

/** The objects of the cluster, live. */
class World {
  /** Whether changes arrive now. */
  live = $state(false)
  /** When the page last heard anything, in milliseconds. */
  heard = $state(0)
  /** The one namespace that is looked at; empty for all. Who may not list all names his own. */
  namespace = $state(localStorage.getItem('nephele.namespace') ?? '')
  private lost = () => {}
  private versions = $state<Record<string, number>>(Object.fromEntries(Object.keys(collections).map((k) => [k, 0])))
  // What `of` returns is another object after each change, so that a derived value that is nothing
  // but the collection is seen to change. It reads through to the collection.
  private views = Object.fromEntries(Object.entries(collections).map(([k, c]) => [k, Object.create(c) as Collection]))
  private source: EventSource | undefined
  private waiting: Message[] = []
  private timer: ReturnType<typeof setTimeout> | undefined
  private watchdog: ReturnType<typeof setInterval> | undefined

  /** of returns a collection; who reads it in an effect or template hears of its changes. */
  of<W extends Watch>(watch: W): (typeof collections)[W] {
    void this.versions[watch]
    return this.views[watch] as unknown as (typeof collections)[W]
  }

  /** start opens the stream. `lost` is called when it breaks: the session may have ended. */
  start(lost: () => void): void {
    this.stop()
    this.lost = lost
    const names = Object.keys(collections)
    const source = new EventSource('/api/stream?csrf=' + proof() + '&' + names.map((n) => 'watch=' + n).join('&') + (this.namespace ? '&namespace=' + encodeURIComponent(this.namespace) : ''))
    this.source = source
    for (const event of ['snapshot', 'change', 'refused']) {
      source.addEventListener(event, (e) => this.take(event, e.data as string))
    }
    source.addEventListener('ping', () => this.hear())
    source.onopen = () => this.hear()
    source.onerror = () => {
      this.live = false
      lost()
      if (source.readyState === EventSource.CLOSED) {
        setTimeout(() => this.source === source && this.start(lost), 3000)
      }
    }
    // A connection that is dead without an error is seen by the silence of its pings.
    this.watchdog = setInterval(() => {
      if (this.live && Date.now() - this.heard > 65_000) {
        this.live = false
        this.start(lost)
      }
    }, 5000)
  }

  /** within looks at one namespace only, or with the empty name at all. */
  within(namespace: string): void {
    this.namespace = namespace
    if (namespace) {
      localStorage.setItem('nephele.namespace', namespace)
    } else {
      localStorage.removeItem('nephele.namespace')
    }
    this.start(this.lost)
  }

  stop(): void {
    this.source?.close()
    this.source = undefined
    clearInterval(this.watchdog)
  }

  private hear(): void {
    this.live = true
    this.heard = Date.now()
  }

  private take(event: string, data: string): void {
    this.hear()
    const m = parse(event, data)
    if (!m) {
      return
    }
    this.waiting.push(m)
    // A fleet that changes at once is drawn a few times a second, not once for each machine.
    this.timer ??= setTimeout(() => {
      this.timer = undefined
      const touched = new Set<string>()
      for (const w of this.waiting.splice(0)) {
        const name = apply(collections as unknown as Record<string, Collection>, w)
        if (name) {
          touched.add(name)
        }
      }
      for (const name of touched) {
        this.views[name] = Object.create((collections as unknown as Record<string, Collection>)[name]!) as Collection
        this.versions[name] = (this.versions[name] ?? 0) + 1
      }
    }, 120)
  }
}

export const world = new World()

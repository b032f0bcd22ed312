import type { AccountPlan, ChangeEnd, MapEdge, MapNode, PlanAnswer, ReachMap } from './analysis'

// The difference that a plan makes, as a map. It is made of the very list that the plan tells, and
// of nothing else, so that the picture and the plan cannot say different things.

/** Told is one sentence about who reaches whom. */
export interface Told {
  opens: boolean
  text: string
}

/** told is what the plan of an account says about who reaches whom. */
export function told(a: AccountPlan): Told[] {
  if (a.reachabilityTold?.length) {
    return a.reachabilityTold.map((t) => ({ opens: t.opens, text: t.all || t.text }))
  }
  return (a.reachability ?? []).map((r) => ({ opens: r.opens, text: `${r.opens ? 'opens' : 'closes'} ${r.packets.text} from ${endText(r.from)} to ${endText(r.to)}` }))
}

const endText = (e: ChangeEnd) => [...(e.vms ?? []), ...(e.addresses ?? []), ...(e.unseen ?? [])].join(', ')

/** What is known of a machine that a plan names. */
export interface Known {
  namespace?: string
  role?: string
  tier?: string
  network?: string
  member: string
}

/** changes is the map of what opens and closes. */
export function changes(plan: PlanAnswer, known: (account: string, region: string, name: string) => Known | undefined): ReachMap {
  const nodes = new Map<string, MapNode>()
  const edges: MapEdge[] = []
  for (const a of plan.accounts) {
    const ends = (region: string, e: ChangeEnd): string[] => {
      if (!e.vms?.length) {
        const text = (e.rest ? 'the rest of ' : '') + endText(e)
        const key = 'outside:' + text
        nodes.set(key, nodes.get(key) ?? { key, label: text, kind: 'Addresses', addresses: e.addresses ?? [], rest: e.rest })
        return [key]
      }
      const keys = new Set<string>()
      for (const name of e.vms) {
        const k = known(a.account, region, name)
        const role = k?.role || name
        const key = ['vms', a.account, region, k?.namespace ?? '', k?.tier ?? '', role].join(':')
        const n = nodes.get(key) ?? { key, label: role, role, kind: 'VM', count: 0, namespace: k?.namespace, tier: k?.tier, account: a.account, region, network: k?.network ?? region, members: [] as string[] }
        const member = k?.member ?? name
        if (!n.members!.includes(member)) {
          n.members!.push(member)
          n.count = n.members!.length
        }
        nodes.set(key, n)
        keys.add(key)
      }
      return [...keys]
    }
    for (const r of a.reachability ?? []) {
      const from = ends(r.region, r.from)
      const to = ends(r.region, r.to)
      for (const f of from) {
        for (const t of to) {
          edges.push({ from: f, to: t, verdict: r.opens ? 'Allow' : 'Drop', by: 'Policies', traffic: r.packets.text, except: r.packets.except, ranges: r.packets.ranges, change: r.opens ? 'Opens' : 'Closes' })
        }
      }
    }
  }
  return { nodes: [...nodes.values()], edges, total: nodes.size }
}

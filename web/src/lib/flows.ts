// What agents have seen of connections: the answer of a FlowQuery, and its words.

export interface FlowEnd {
  address: string
  kind?: string
  namespace?: string
  name?: string
  hidden?: boolean
}

export interface FlowCause {
  cause: string
  direction?: string
  type?: string
  namespace?: string
  name?: string
  rule?: string
  index?: number
  why?: string
}

export interface SeenFlow {
  first: string
  last: string
  enforcer: string
  direction: string
  from: FlowEnd
  to: FlowEnd
  service?: FlowEnd
  protocol: string
  port?: number
  servicePort?: number
  verdict: string
  by: FlowCause
  /** What had let it pass before that, as the rule of the sender. */
  before?: FlowCause
  hidden?: boolean
  connections: number
  ended?: number
  bytes?: number
  replyBytes?: number
  uncounted?: boolean
  differs?: string
}

export interface FlowAnswer {
  limited?: boolean
  since: string
  next: string
  flows: SeenFlow[]
  more?: number
  enforcers: number
  losses?: Record<string, number>
}

/** endText names an end. */
export function endText(e: FlowEnd): string {
  return !e.name ? e.address : e.namespace ? `${e.namespace}/${e.name}` : `${(e.kind ?? '').toLowerCase()}/${e.name}`
}

/** askable is an end as the other screens ask about it. */
export function askable(e: FlowEnd): string {
  switch (e.kind) {
    case 'Pod':
      return `pod/${e.namespace}/${e.name}`
    case 'ExternalEntity':
      return `ee/${e.namespace}/${e.name}`
    case 'Node':
      return `node/${e.name}`
  }
  return e.address
}

/** seenText says what happened, and on which side it was seen. */
export function seenText(f: SeenFlow): string {
  const word = { Allow: 'accepted', Drop: 'dropped', Reject: 'rejected' }[f.verdict] ?? 'ended'
  return word + ({ In: ' ingress', Out: ' egress' }[f.direction] ?? '')
}

/** causeText says what decided, without the name of a policy. */
export function causeText(f: SeenFlow): string {
  const c = f.by
  switch (c.cause) {
    case 'Policy':
      return f.hidden ? 'a policy that you may not read' : c.rule || (c.type === 'K8sNetworkPolicy' ? '' : `rule ${c.index ?? 0}`)
    case 'Isolation':
      return f.hidden ? 'isolated by a policy that you may not read' : 'isolated'
    case 'Native':
      return 'no policy'
    case 'Group':
    case 'NetworkACL':
      return c.why ?? ''
    case 'Failsafe':
      return `failsafe flow ${c.rule ?? ''}`.trim()
    case 'Frame':
      return 'let pass for all'
    case 'Related':
      return 'belongs to another connection'
    case 'Itself':
      return 'a Pod reaches itself'
    case 'NoPod':
      return 'no Pod that is known has the address'
    case 'Routed':
      return 'only passes through the host'
  }
  return 'unknown' + (c.why ? ': ' + c.why : '')
}

/** differsText says how traffic is not as rules say. */
export function differsText(word: string): string {
  return { Leaks: 'leaks', Cut: 'cut', RefusedByCloud: 'refused by the cloud' }[word] ?? 'may be old'
}

const losses: Record<string, string> = {
  overruns: 'times a kernel dropped events of connections, because too many came at once; those that went on were found afterwards',
  ends: 'connections ended meanwhile, and what they carried is not told',
  packets: 'denied packets were not told, because too many came at once',
  connections: 'connections were left out of reports',
  forgotten: 'entries were forgotten before an hour had passed',
  refused: 'entries of reports were malformed',
}

/** missing says what the answer lacks. */
export function missing(a: FlowAnswer): string[] {
  const out = Object.entries(losses).flatMap(([k, text]) => (a.losses?.[k] ? [`${a.losses[k]} ${text}`] : []))
  if (a.limited) {
    out.push('only flows with an end in a Namespace whose network policies you may list are shown')
  }
  if (a.flows.some((f) => f.uncounted)) {
    out.push('some hosts count no bytes: sysctl -w net.netfilter.nf_conntrack_acct=1 there turns it on')
  }
  if (a.more) {
    out.push(`${a.more} flows more were seen: ask for less`)
  }
  return out
}

/** bytesText is a number of bytes in three digits. */
export function bytesText(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let unit = 0
  while (n >= 999.5 && unit < units.length - 1) {
    n /= 1000
    unit++
  }
  return `${unit && n < 99.95 ? n.toFixed(1) : n.toFixed(0)} ${units[unit]}`
}

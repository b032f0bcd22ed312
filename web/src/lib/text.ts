import type { LabelSelector, Peer, Rule } from './k8s'

/** An error that says what is wrong with a text that somebody wrote. */
export class Wrong extends Error {}

/** selectorText writes a label selector in one line, as kubectl takes it. */
export function selectorText(s: LabelSelector | undefined): string {
  if (!s) {
    return ''
  }
  const parts = Object.entries(s.matchLabels ?? {}).map(([k, v]) => `${k}=${v}`)
  for (const e of s.matchExpressions ?? []) {
    switch (e.operator) {
      case 'In':
        parts.push(`${e.key} in (${(e.values ?? []).join(',')})`)
        break
      case 'NotIn':
        parts.push(`${e.key} notin (${(e.values ?? []).join(',')})`)
        break
      case 'Exists':
        parts.push(e.key)
        break
      case 'DoesNotExist':
        parts.push('!' + e.key)
        break
      default:
        parts.push(`${e.key} ${e.operator}?`)
    }
  }
  return parts.join(', ')
}

const KEY = /^(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?$/
const VALUE = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/

/** longLabel puts the prefixes back that shortLabel leaves out: the page's words may be typed as they are read. */
export function longLabel(text: string): string {
  return text.replace(/(^|[\s,!/])tag:(?=\S)/g, '$1nephe.antrea.io/tag-').replace(/(^|[\s,!/])my:(?=\S)/g, '$1nephele.io/user-tag-')
}

function labelKey(typed: string): string {
  const text = longLabel(typed)
  if (!KEY.test(text)) {
    throw new Wrong(`"${text}" is no key of a label`)
  }
  return text
}

function labelValue(text: string): string {
  if (!VALUE.test(text) || text.length > 63) {
    throw new Wrong(`"${text}" is no value of a label`)
  }
  return text
}

/** parseSelector reads what selectorText writes; the empty text selects everything. */
export function parseSelector(text: string): LabelSelector {
  const out: LabelSelector = {}
  const expression = (key: string, operator: string, values?: string[]) => {
    out.matchExpressions = [...(out.matchExpressions ?? []), values ? { key, operator, values } : { key, operator }]
  }
  // A comma separates, but not within brackets.
  for (const part of text.split(/,(?![^(]*\))/).map((p) => p.trim())) {
    if (!part) {
      continue
    }
    const set = /^(\S+)\s+(in|notin)\s*\(([^)]*)\)$/.exec(part)
    const ne = /^([^!=\s]+)\s*!=\s*(\S*)$/.exec(part)
    const eq = /^([^!=\s]+)\s*==?\s*(\S*)$/.exec(part)
    if (set) {
      const values = set[3]!.split(',').map((v) => labelValue(v.trim()))
      expression(labelKey(set[1]!), set[2] === 'in' ? 'In' : 'NotIn', values)
    } else if (ne) {
      expression(labelKey(ne[1]!), 'NotIn', [labelValue(ne[2]!)])
    } else if (eq) {
      const key = labelKey(eq[1]!)
      if (out.matchLabels && key in out.matchLabels) {
        throw new Wrong(`the key "${key}" is there twice`)
      }
      out.matchLabels = { ...out.matchLabels, [key]: labelValue(eq[2]!) }
    } else if (part.startsWith('!')) {
      expression(labelKey(part.slice(1).trim()), 'DoesNotExist')
    } else {
      expression(labelKey(part), 'Exists')
    }
  }
  return out
}

/** trafficText says what ports and protocols a rule is about: "tcp 22, udp 53, icmp 8/0". */
export function trafficText(r: Pick<Rule, 'ports' | 'protocols'>): string {
  const parts: string[] = []
  for (const p of r.ports ?? []) {
    let t = (p.protocol ?? 'TCP').toLowerCase()
    if (p.port !== undefined) {
      t += ' ' + p.port + (p.endPort !== undefined ? '-' + p.endPort : '')
    }
    if (p.sourcePort !== undefined) {
      t += ' from ' + p.sourcePort + (p.sourceEndPort !== undefined ? '-' + p.sourceEndPort : '')
    }
    parts.push(t)
  }
  for (const p of r.protocols ?? []) {
    if (p.icmp) {
      let t = 'icmp'
      if (p.icmp.icmpType !== undefined) {
        t += ' ' + p.icmp.icmpType + (p.icmp.icmpCode !== undefined ? '/' + p.icmp.icmpCode : '')
      }
      parts.push(t)
    } else {
      parts.push('igmp')
    }
  }
  return parts.join(', ')
}

function number(text: string, most: number): number {
  const n = Number(text)
  if (!/^\d+$/.test(text) || n > most) {
    throw new Wrong(`"${text}" is no number from 0 to ${most}`)
  }
  return n
}

/** parseTraffic reads what trafficText writes; the empty text means all traffic. */
export function parseTraffic(text: string): Pick<Rule, 'ports' | 'protocols'> {
  const out: Pick<Rule, 'ports' | 'protocols'> = {}
  for (const part of text.split(',').map((p) => p.trim().toLowerCase())) {
    if (!part) {
      continue
    }
    const m = /^(tcp|udp|sctp)(?:[\s/]+([a-z0-9-]+))?(?:\s+from\s+(\d+)(?:-(\d+))?)?$/.exec(part)
    const icmp = /^(?:icmp|ping)(?:\s+(\d+)(?:\/(\d+))?)?$/.exec(part)
    if (m) {
      const port: NonNullable<Rule['ports']>[number] = { protocol: m[1]!.toUpperCase() }
      const range = m[2] ? /^(\d+)-(\d+)$/.exec(m[2]) : null
      if (range) {
        port.port = number(range[1]!, 65535)
        port.endPort = number(range[2]!, 65535)
        if (port.endPort < port.port) {
          throw new Wrong(`"${m[2]}" ends before it begins`)
        }
      } else if (m[2]) {
        port.port = /^\d+$/.test(m[2]) ? number(m[2], 65535) : m[2]
      }
      if (m[3]) {
        port.sourcePort = number(m[3], 65535)
      }
      if (m[4]) {
        port.sourceEndPort = number(m[4], 65535)
      }
      out.ports = [...(out.ports ?? []), port]
    } else if (icmp) {
      const p: { icmpType?: number; icmpCode?: number } = {}
      if (part.startsWith('ping')) {
        p.icmpType = 8
        p.icmpCode = 0
      }
      if (icmp[1]) {
        p.icmpType = number(icmp[1], 255)
      }
      if (icmp[2]) {
        p.icmpCode = number(icmp[2], 255)
      }
      out.protocols = [...(out.protocols ?? []), { icmp: p }]
    } else {
      throw new Wrong(`"${part}": write tcp 443, udp 8000-8100, icmp 8/0 or ping`)
    }
  }
  return out
}

/** peerText says in a few words whom a peer or appliedTo stands for. */
export function peerText(p: Peer): string {
  if (p.group) {
    return 'group ' + p.group
  }
  if (p.ipBlock) {
    return p.ipBlock.cidr + (p.ipBlock.except?.length ? ' except ' + p.ipBlock.except.join(', ') : '')
  }
  if (p.fqdn) {
    return String(p.fqdn)
  }
  const all = (s: LabelSelector, what: string) => selectorText(s) || 'all ' + what
  const within = p.namespaceSelector ? ` in namespaces ${selectorText(p.namespaceSelector) || '(all)'}` : ''
  if (p.externalEntitySelector) {
    return 'VMs ' + all(p.externalEntitySelector, '').replace(/^all $/, '(all)') + within
  }
  if (p.podSelector) {
    return 'Pods ' + (selectorText(p.podSelector) || '(all)') + within
  }
  if (p.nodeSelector) {
    return 'Nodes ' + (selectorText(p.nodeSelector) || '(all)')
  }
  if (p.namespaceSelector) {
    return 'Pods (all)' + within
  }
  return Object.keys(p).join(', ') || '(nobody)'
}

/** shortLabel leaves out the prefixes that every label of an imported machine has. */
export function shortLabel(text: string): string {
  return text.replaceAll('nephe.antrea.io/tag-', 'tag:').replaceAll('nephele.io/user-tag-', 'my:').replaceAll('nephe.antrea.io/', '')
}

/** csv writes rows for a spreadsheet. A cell that one would take for a formula is made a text. */
export function csv(rows: (string | number)[][]): string {
  return rows.map((r) => r.map(csvCell).join(',') + '\r\n').join('')
}

/** csvCell quotes one cell. Spreadsheets run what begins with = + - @ or a control character. */
export function csvCell(v: string | number): string {
  let text = String(v)
  if (typeof v === 'string' && /^[\s]*[=+\-@\t\r\n＝＋－＠]/.test(text)) {
    text = "'" + text
  }
  return /[",\r\n;\t']/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text
}

/** ago says how long a time has passed: "5 s", "3 min", "2 h", "4 d". */
export function ago(then: string | undefined, now: number): string {
  const at = then ? Date.parse(then) : NaN
  if (Number.isNaN(at)) {
    return 'never'
  }
  const s = Math.max(0, Math.round((now - at) / 1000))
  if (s < 100) {
    return `${s} s`
  }
  if (s < 100 * 60) {
    return `${Math.round(s / 60)} min`
  }
  if (s < 72 * 3600) {
    return `${Math.round(s / 3600)} h`
  }
  return `${Math.round(s / 86400)} d`
}

/** left says how long it is until a time: "40 s", "1 h 59 min", "2 d 3 h"; '' if it is over. */
export function left(until: string, now: number): string {
  const s = Math.round((Date.parse(until) - now) / 1000)
  if (!(s > 0)) {
    return ''
  }
  if (s < 100) {
    return `${s} s`
  }
  const min = Math.round(s / 60)
  if (min < 60) {
    return `${min} min`
  }
  const h = Math.floor(min / 60)
  return h < 24 ? `${h} h ${min % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`
}

/** moment writes a time for people, in their own zone, to the second. */
export function moment(t: string | undefined): string {
  const at = t ? new Date(t) : undefined
  if (!at || Number.isNaN(at.getTime())) {
    return ''
  }
  const two = (n: number) => String(n).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}

/** count writes a number and its noun: "1 VM", "3 VMs". */
export function count(n: number, one: string, many = one + 's'): string {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`
}

/** save offers a text as a file. */
export function save(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const a = document.createElement('a')
  a.href = url
  a.download = name.replace(/[^\w.-]+/g, '_')
  document.body.append(a)
  a.click()
  a.remove()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

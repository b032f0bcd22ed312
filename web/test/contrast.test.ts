import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'svelte/compiler'
import { describe, expect, test } from 'vitest'

// Whatever can be pressed is readable in every state, in both themes: the cascade of the sheets is
// worked out for each button and link of the templates, and its contrast held against WCAG AA.

const src = fileURLToPath(new URL('../src/', import.meta.url))

// ---- what stands in the sources

/** What a selector asks for at one element. */
interface Simple {
  type: string
  name: string
  value?: string | null
  args?: { children: Complex[] }
}
interface Complex {
  children: { combinator: { name: string } | null; selectors: Simple[] }[]
}
interface Rule {
  selector: Complex
  declarations: Map<string, string>
  order: number
  /** The component that the rule is confined to; empty for the sheet of the page. */
  scope: string
}
interface Element {
  tag: string
  classes: Set<string>
  /** It has classes that are worked out only at run time. */
  open: boolean
  /** Classes that it has at times. */
  may: Set<string>
  attributes: Map<string, string | true>
  parents: Element[]
  scope: string
  line: number
}

const rules: Rule[] = []
const elements: Element[] = []

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Node = any

function readRules(css: Node, scope: string) {
  for (const node of css?.children ?? []) {
    if (node.type !== 'Rule') continue
    const declarations = new Map<string, string>()
    for (const d of node.block.children) if (d.type === 'Declaration') declarations.set(d.property, d.value.trim())
    for (const selector of node.prelude.children) rules.push({ selector, declarations, order: rules.length, scope })
  }
}

function readElements(node: Node, parents: Element[], scope: string, source: string) {
  if (!node || typeof node !== 'object') return
  if (Array.isArray(node)) {
    for (const n of node) readElements(n, parents, scope, source)
    return
  }
  let inside = parents
  if (node.type === 'RegularElement') {
    const element: Element = { tag: node.name, classes: new Set(), open: false, may: new Set(), attributes: new Map(), parents, scope, line: source.slice(0, node.start).split('\n').length }
    for (const a of node.attributes) {
      if (a.type === 'ClassDirective') element.may.add(a.name)
      if (a.type !== 'Attribute') continue
      const parts = a.value === true ? [] : Array.isArray(a.value) ? a.value : [a.value]
      const text = parts.map((p: Node) => (p.type === 'Text' ? p.data : '')).join(' ')
      if (a.name === 'class') {
        for (const c of text.split(/\s+/)) if (c) element.classes.add(c)
        element.open ||= parts.some((p: Node) => p.type !== 'Text')
      }
      element.attributes.set(a.name, parts.every((p: Node) => p.type === 'Text') ? text : true)
    }
    elements.push(element)
    inside = [...parents, element]
  }
  for (const [key, value] of Object.entries(node)) {
    if (key !== 'attributes' && key !== 'css' && value && typeof value === 'object') readElements(value, inside, scope, source)
  }
}

readRules(parse(`<style>${readFileSync(join(src, 'style/base.css'), 'utf8')}</style>`, { modern: true }).css, '')
for (const entry of readdirSync(src, { recursive: true, encoding: 'utf8' }).sort()) {
  if (!entry.endsWith('.svelte')) continue
  const source = readFileSync(join(src, entry), 'utf8')
  const tree: Node = parse(source, { modern: true })
  readRules(tree.css, entry)
  readElements(tree.fragment, [], entry, source)
}

// ---- the cascade

const STATES = { rest: [], hover: ['hover'], focus: ['focus', 'focus-visible'], active: ['hover', 'active', 'focus'], disabled: ['disabled', 'hover'] } as const
type State = keyof typeof STATES

/** One way in which an element may stand: its state, and the values of what is worked out. */
interface Stand {
  state: State
  classes: Set<string>
  pressed: Map<string, string>
}

/** meets tells whether the element meets what stands at one place of a selector; what is not known counts against. */
function meets(e: Element, simple: Simple, stand: Stand | undefined): boolean {
  switch (simple.type) {
    case 'TypeSelector':
      return simple.name === '*' || simple.name === e.tag
    case 'ClassSelector':
      return e.classes.has(simple.name) || stand?.classes.has(simple.name) === true
    case 'AttributeSelector': {
      const value = stand?.pressed.get(simple.name) ?? e.attributes.get(simple.name)
      const wanted = simple.value?.replace(/['"]/g, '')
      return value !== undefined && (wanted === undefined || value === wanted)
    }
    case 'PseudoClassSelector':
      if (simple.name === 'not') return !simple.args!.children.some((c) => c.children[0]!.selectors.every((s) => meets(e, s, stand)))
      return (STATES[stand?.state ?? 'rest'] as readonly string[]).includes(simple.name)
    case 'PseudoElementSelector':
      return false
  }
  return false
}

function matches(e: Element, selector: Complex, stand: Stand): boolean {
  const parts = selector.children
  if (!parts[parts.length - 1]!.selectors.every((s) => meets(e, s, stand))) return false
  let above = e.parents
  for (let i = parts.length - 2; i >= 0; i--) {
    const combinator = parts[i + 1]!.combinator?.name
    if (combinator === '+' || combinator === '~') return false
    let at = above.length - 1
    while (at >= 0 && !parts[i]!.selectors.every((s) => meets(above[at]!, s, undefined))) {
      if (combinator === '>') return false
      at--
    }
    if (at < 0) return false
    above = above.slice(0, at)
  }
  return true
}

function specificity(r: Rule): number {
  let n = r.scope ? 100 : 0
  const weigh = (s: Simple): number => {
    if (s.type === 'PseudoClassSelector' && s.name === 'not') return Math.max(...s.args!.children.flatMap((c) => c.children.map((p) => p.selectors.reduce((m, x) => m + weigh(x), 0))))
    return s.type === 'TypeSelector' ? (s.name === '*' ? 0 : 1) : s.type === 'PseudoElementSelector' ? 1 : 100
  }
  for (const p of r.selector.children) for (const s of p.selectors) n += weigh(s)
  return n
}

/** computed is what the sheets say of the element, strongest last. */
function computed(e: Element, stand: Stand): Map<string, string> {
  const out = new Map<string, string>()
  const met = rules.filter((r) => (!r.scope || r.scope === e.scope) && matches(e, r.selector, stand))
  for (const r of met.sort((a, b) => specificity(a) - specificity(b) || a.order - b.order)) for (const [k, v] of r.declarations) out.set(k === 'background-color' ? 'background' : k, v)
  return out
}

// ---- colours

type Colour = [number, number, number]

function tokens(dark: boolean): Map<string, string> {
  const out = new Map<string, string>()
  for (const r of rules) {
    const [only] = r.selector.children
    if (r.scope || r.selector.children.length !== 1 || only!.selectors[0]!.name !== 'root') continue
    if (only!.selectors.length === 1 || dark) for (const [k, v] of r.declarations) if (k.startsWith('--')) out.set(k, v)
  }
  return out
}

/** resolve follows variables; the nearest say of the element comes before the theme's. */
function resolve(value: string, own: Map<string, string>, theme: Map<string, string>, depth = 0): string {
  if (depth > 10) throw new Error('a variable that leads to itself: ' + value)
  const name = /^var\((--[\w-]+)\)$/.exec(value)?.[1]
  if (!name) return value
  const next = own.get(name) ?? theme.get(name)
  if (next === undefined) throw new Error('there is no variable ' + name)
  return resolve(next, own, theme, depth + 1)
}

function colour(value: string): Colour | undefined {
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(value)?.[1]
  if (hex) {
    const h = hex.length === 3 ? [...hex].map((c) => c + c).join('') : hex
    return [0, 2, 4].map((i) => parseInt(h.slice(i, i + 2), 16)) as Colour
  }
  if (value === 'none' || value === 'transparent' || value === 'inherit') return undefined
  throw new Error('a colour that this test cannot read: ' + value)
}

function luminance(c: Colour): number {
  const [r, g, b] = c.map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4)) as Colour
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(a: Colour, b: Colour): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number]
  return (light + 0.05) / (dark + 0.05)
}

/** What lies beneath whatever has no colour of its own. */
const GROUND = ['--bg', '--panel', '--sunk', '--hover']
const AA = 4.5

/** beneath is the colour of the nearest element around it that has one. */
function beneath(e: Element, theme: Map<string, string>): Colour | undefined {
  for (const around of [...e.parents].reverse()) {
    const own = computed(around, { state: 'rest', classes: new Set(), pressed: new Map() })
    const found = colour(resolve(own.get('background') ?? 'none', own, theme))
    if (found) return found
  }
  return undefined
}

/** wanting says where a thing that can be pressed cannot be read. */
function wanting(e: Element): string[] {
  const out: string[] = []
  // What is worked out at run time is tried with every class that the sheets of its component know.
  const known = [...e.may, ...(e.open ? [...new Set(rules.filter((r) => r.scope === e.scope).flatMap((r) => r.selector.children.at(-1)!.selectors.filter((s) => s.type === 'ClassSelector').map((s) => s.name)))] : [])]
  const pressed = ['aria-pressed', 'aria-current', 'aria-selected'].flatMap((a) => (e.attributes.has(a) ? (a === 'aria-current' ? ['page'] : ['true', 'false']).map((v) => new Map([[a, v]])) : []))
  for (const dark of [false, true]) {
    const theme = tokens(dark)
    for (const state of Object.keys(STATES) as State[]) {
      if (state === 'disabled' && e.tag !== 'button') continue
      for (const classes of [new Set<string>(), ...known.map((k) => new Set([k]))]) {
        for (const p of [new Map<string, string>(), ...pressed]) {
          const own = computed(e, { state, classes, pressed: p })
          const ink = colour(resolve(own.get('color') ?? 'inherit', own, theme)) ?? colour(resolve('var(--text)', own, theme))!
          const fill = colour(resolve(own.get('background') ?? 'none', own, theme))
          const below = beneath(e, theme)
          const where = `${e.scope}:${e.line} ${e.tag}.${[...e.classes, ...classes].join('.')} ${state}${[...p].map(([k, v]) => ` ${k}=${v}`).join('')} ${dark ? 'dark' : 'light'}`
          for (const ground of fill ? [fill] : below ? [below] : GROUND.map((g) => colour(theme.get(g)!)!)) {
            const c = contrast(ink, ground)
            if (c < AA) out.push(`${where}: ${c.toFixed(2)}`)
          }
          for (const word of ['opacity', 'filter']) if (Number(own.get(word) ?? 1) !== 1) out.push(`${where}: ${word} makes a colour that no sheet names`)
        }
      }
    }
  }
  return out
}

describe('what can be pressed', () => {
  const pressable = elements.filter((e) => e.tag === 'button' || e.tag === 'a' || e.tag === 'summary')
  test('is found in the templates', () => {
    expect(pressable.length).toBeGreaterThan(60)
    expect(pressable.some((e) => e.tag === 'button' && e.classes.has('main'))).toBe(true)
  })
  test('is readable in every state and theme', () => {
    expect([...new Set(pressable.flatMap(wanting))]).toEqual([])
  })
})

describe('text', () => {
  const pairs: [ink: string, on: string[]][] = [
    ['--text', ['--bg', '--panel', '--sunk', '--hover', '--accent-soft', '--good-soft', '--bad-soft', '--warn-soft', '--plan-soft', '--calm-soft']],
    ['--mute', ['--bg', '--panel', '--sunk', '--hover']],
    ['--accent', ['--bg', '--panel', '--sunk', '--hover', '--accent-soft']],
    ['--good', ['--panel', '--bg', '--good-soft']],
    ['--bad', ['--panel', '--bg', '--bad-soft']],
    ['--warn', ['--panel', '--bg', '--warn-soft']],
    ['--plan', ['--panel', '--bg', '--plan-soft']],
    ['--calm', ['--panel', '--bg', '--calm-soft']],
    ['--on-accent', ['--accent', '--accent-over']],
  ]
  test.each([false, true])('is readable on every ground it may stand on, dark: %s', (dark) => {
    const theme = tokens(dark)
    const c = (name: string) => colour(theme.get(name)!)!
    expect(pairs.flatMap(([ink, on]) => on.flatMap((ground) => (contrast(c(ink), c(ground)) < AA ? [`${ink} on ${ground}: ${contrast(c(ink), c(ground)).toFixed(2)}`] : [])))).toEqual([])
  })
})

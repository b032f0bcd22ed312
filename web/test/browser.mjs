// Plays a scene in a real browser. What to play comes as JSON on standard input: the scene, a link
// of the console, and where the browser is; what was seen goes to standard output as JSON. Every
// scene fails on an error of the page, a violation of its policy of contents, and on code that came
// in with a name.
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRequire } from 'node:module'
import { createServer } from 'node:http'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { chromium } from 'playwright-core'

const what = JSON.parse(readFileSync(0, 'utf8'))
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const PATIENCE = 600_000

const profile = mkdtempSync(join(tmpdir(), 'nephele-browser-'))
const context = await chromium.launchPersistentContext(profile, {
  executablePath: what.browser,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  viewport: { width: 1280, height: 800 },
  reducedMotion: 'reduce',
  colorScheme: 'light',
  bypassCSP: false,
})
context.setDefaultTimeout(PATIENCE)
const page = context.pages()[0] ?? (await context.newPage())
const problems = []
page.on('pageerror', (e) => problems.push('error of the page: ' + (e.stack ?? e)))
page.on('console', (m) => {
  if (m.type() === 'error' && !/status of (4\d\d|5\d\d)/.test(m.text())) problems.push('console: ' + m.text())
})
page.on('dialog', (d) => (problems.push('dialog: ' + d.message()), d.dismiss()))
page.on('request', (r) => {
  if (!r.url().startsWith(origin) && !/^(data|blob|about):/.test(r.url())) problems.push('asks another host: ' + r.url())
})
const origin = new URL(what.link).origin

async function go(path) {
  await page.goto(origin + path, { waitUntil: 'domcontentloaded' })
  await page.getByRole('status').filter({ hasText: 'live' }).first().waitFor()
}
/** settled waits until nothing is being loaded any more. */
async function settled() {
  await page.waitForFunction(() => !document.querySelector('.state.loading, [aria-busy="true"], form.box button:disabled, .panel > header button:disabled'), undefined, { timeout: PATIENCE })
}
/** paste takes the place of what is selected in the editor, as from the clipboard. */
async function paste(text) {
  await page.locator('.cm-content').evaluate((el, text) => {
    const data = new DataTransfer()
    data.setData('text/plain', text)
    el.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))
  }, text)
}
function must(ok, text) {
  if (!ok) throw new Error(text)
}
/** clean looks with axe. What is gone a second later was the page on its way, and does not count. */
async function clean(name) {
  let found = []
  for (let attempt = 0; attempt < 4; attempt++) {
    if (attempt > 0) await page.waitForTimeout(1000)
    await settled()
    found = await page.evaluate(async () => {
      const r = await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })
      return r.violations.map((v) => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 4).map((n) => n.html.slice(0, 200) + ' ' + (n.any[0]?.message ?? '')) }))
    })
    if (!found.length) return
  }
  for (const v of found) problems.push(`${name}: axe ${v.id}: ${v.help}: ${v.nodes.join(' | ')}`)
}
async function picture(name) {
  if (!what.pictures) return
  mkdirSync(what.pictures, { recursive: true })
  await page.screenshot({ path: join(what.pictures, `console-${name}.png`) })
}
async function vmPath(name) {
  await go('/workload')
  const a = page.getByRole('link', { name, exact: true }).first()
  await a.waitFor()
  return a.getAttribute('href')
}

const scenes = {
  /** Every screen has what it is for, is clean, and runs nothing that came in with a name. */
  async screens() {
    const machine = await vmPath('db-1')
    const all = {
      overview: ['/', 'shop/cloud'],
      map: ['/map', 'Choose one, or a line'],
      reachability: ['/reach', 'web-1'],
      policies: ['/policies', 'no-ssh-from-outside'],
      editor: ['/policies/annp/shop/web', 'What comes in'],
      yaml: ['/policies/annp/shop/web?as=yaml', 'Before it is applied'],
      groups: ['/policies/groups?group=all-vms', 'all-vms'],
      seen: ['/map?traffic=1', 'No agent has reported within the last hour'],
      traffic: ['/flows', 'No agent has reported within the last hour'],
      changes: ['/changes', 'What is still to be done'],
      history: ['/changes?tab=history', 'shop/web'],
      drift: ['/changes?tab=drift', 'Timeline'],
      refusals: ['/changes?tab=refusals', 'Refused'],
      workloads: ['/workload', what.hostile],
      workload: [machine, 'Rules that hold'],
      flow: [`/workload/flow?from=203.0.113.7&to=shop/${machine.split('/').pop()}&protocol=TCP&port=22`, 'entering the destination'],
    }
    // contrast.test.ts holds the colours of both against each other at each commit.
    for (const dark of what.dark ? [false, true] : [false]) {
      await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce' })
      for (const width of dark ? [1920] : [1280]) {
        await page.setViewportSize(width === 1280 ? { width, height: 800 } : { width, height: 1080 })
        for (const [name, [path, text]] of Object.entries(all)) {
          await go(path)
          await page.getByText(text, { exact: false }).first().waitFor()
          await settled()
          if (name === 'map') await page.waitForFunction(() => (document.querySelector('.canvas')?.cy?.nodes().length ?? 0) > 3)
          await clean(`${name} ${width} ${dark ? 'dark' : 'light'}`)
          must((await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)) === true, `${name} is wider than the window at ${width}`)
          if (name === 'history') {
            // What the controller has not written says so, and nothing else does.
            await page.getByRole('listitem').filter({ hasText: 'shop/forged' }).getByText('unproven').waitFor()
            must((await page.getByText('unproven').count()) === 1, 'revisions of the controller are unproven')
          }
          if (name === 'overview') must((await page.getByRole('region', { name: 'Quotas' }).getByRole('meter').count()) >= 3, 'no bars of quotas where nothing is to be done')
          if (width === 1280) await picture(name)
          if (dark && (name === 'overview' || name === 'map')) await picture(name + '-dark')
        }
      }
    }
    // A hostile name is a text wherever it stands, and is found as one.
    await page.keyboard.press('/')
    await page.getByRole('combobox', { name: 'Find a machine, Pod or policy' }).fill('onerror')
    await page.getByRole('dialog').getByRole('option').first().waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1 }).filter({ hasText: what.hostile }).waitFor()
    // The keyboard alone leads past the navigation.
    await go('/')
    await page.keyboard.press('Tab')
    must((await page.evaluate(() => document.activeElement?.textContent)) === 'Skip to the content', 'the first stop of the keyboard is not the skip link')
    return {}
  },

  /** Native services and interfaces are where VMs are: in lists, on pages of their own, on the map. */
  async services() {
    const path = async (tab, name) => {
      await go('/workload?tab=' + tab)
      const a = page.getByRole('link', { name, exact: true }).first()
      await a.waitFor()
      return a.getAttribute('href')
    }
    const database = await path('cns', 'orders')
    for (const text of ['RDSInstance', 'postgres 5432/TCP', 'Settable']) await page.getByText(text, { exact: true }).first().waitFor()
    await clean('services')
    await go(database)
    for (const text of ['yes: policies can be enforced on it', 'Former groups', what.hostile, 'on-services']) await page.getByText(text, { exact: false }).first().waitFor()
    await page.getByRole('region', { name: 'Policies on it' }).getByText('Realized').waitFor()
    await page.getByRole('region', { name: 'Rules that hold' }).getByText('tcp 5432').first().waitFor()
    await clean('a database')
    await picture('service')
    await go(await path('cns', 'pass'))
    await page.getByRole('region', { name: 'Policies on it' }).getByText('Failed').waitFor()
    await page.getByText('no: ').waitFor()
    must((await page.getByRole('button', { name: 'Release in an emergency' }).count()) === 0, 'what cannot be set can be released')
    await go(await path('nic', 'spare'))
    await page.getByText('Attached to').waitFor()
    await page.getByText(what.hostile).first().waitFor()
    await clean('an interface')
    // A policy lists what it applies to, of every kind.
    await go('/policies/annp/shop/on-services')
    const applies = page.getByRole('region', { name: 'Applies to' })
    for (const name of ['orders', 'pass']) await applies.getByRole('link', { name, exact: true }).waitFor()
    // What a load balancer hands on is told with its targets, and where its health checks end.
    await go('/workload/flow?from=shop/app-1&to=cns/shop/front&protocol=TCP&port=443')
    const handed = page.getByRole('region', { name: 'Handed on by front' })
    await handed.getByText('one of 2 targets').waitFor()
    for (const name of ['VM shop/web-1', 'VM shop/web-2']) await handed.getByText(name).first().waitFor()
    await handed.getByText('Health checks do not reach any target').waitFor()
    await clean('through a load balancer')
    await picture('balancer')
    // The search knows kinds and ports.
    await page.keyboard.press('/')
    await page.getByRole('combobox', { name: 'Find a machine, Pod or policy' }).fill('postgres')
    await page.getByRole('dialog').getByRole('option', { name: /orders.*RDSInstance/ }).first().waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'orders' }).waitFor()
    await go('/map')
    await page.waitForFunction(() => ['database', 'balancer', 'nic'].every((form) => (document.querySelector('.canvas')?.cy?.nodes('.form-' + form).length ?? 0) > 0))
    must((await page.evaluate(() => document.querySelector('.canvas').cy.nodes('.form-database').data('label'))).includes('RDSInstance'), 'a database on the map does not say what it is')
    await page.getByLabel('Filter the map').fill('rdsinstance')
    await page.getByRole('complementary', { name: 'Details' }).getByRole('button', { name: 'orders' }).click()
    must((await page.getByRole('complementary', { name: 'Details' }).getByRole('link', { name: 'cns/shop/orders' }).getAttribute('href')) === database, 'a database on the map does not lead to its page')
    await clean('services on the map')
    return {}
  },

  /** A policy is written in the editor, both ways, planned, applied, and seen on the map. */
  async write() {
    await go('/map')
    await page.waitForFunction(() => (document.querySelector('.canvas')?.cy?.nodes().length ?? 0) > 3)
    const before = await page.evaluate(() => document.querySelector('.canvas').cy.elements().map((e) => e.id()).sort().join())
    await go('/policies/new?ns=shop')
    await page.getByLabel('Name', { exact: true }).fill('db-from-app')
    await page.getByLabel('Labels of vms').first().fill('nephe.antrea.io/tag-role=db')
    await page.getByRole('region', { name: 'Ingress rules' }).getByRole('button', { name: 'Rule' }).click()
    await page.getByLabel('Name of the rule').fill('postgres')
    await page.getByLabel('Add to who from').selectOption('vms')
    await page.getByRole('list', { name: 'who from' }).getByLabel('Labels of vms').fill('nephe.antrea.io/tag-role=app')
    await page.getByLabel('Ports and protocols').fill('tcp 70000')
    await page.getByText('It is no policy yet').waitFor()
    await page.getByLabel('Ports and protocols').fill('tcp 5432')
    await page.getByText('The server would take it').waitFor()
    // The server's own word, not the page's.
    await page.getByLabel('Priority').fill('100000')
    await page.getByText('The server would refuse it').waitFor()
    await page.getByLabel('Priority').fill('20')
    await page.getByText('The server would take it').waitFor()
    await page.getByRole('button', { name: 'YAML' }).click()
    await page.locator('.cm-content').getByText('tag-role: app').waitFor()
    await page.getByRole('button', { name: 'Rules', exact: true }).click()
    must(await page.getByRole('button', { name: 'Apply', exact: true }).isDisabled(), 'it can be applied before its plan was seen')
    await page.getByRole('button', { name: 'Plan', exact: true }).click()
    await page.getByRole('list', { name: 'Reachability' }).waitFor()
    must(/closes/i.test(await page.getByRole('list', { name: 'Reachability' }).innerText()), 'the plan does not say what closes')
    await clean('editor with a plan')
    await picture('plan')
    await page.getByRole('button', { name: 'On the map' }).click()
    await page.waitForFunction(() => (document.querySelector('.canvas')?.cy?.edges('.closes').length ?? 0) > 0)
    await picture('difference')
    await page.goBack()
    // What was written is in the draft of the map only; it is written again, as YAML.
    await page.getByRole('button', { name: 'YAML' }).click()
    await page.locator('.cm-content').click()
    await page.keyboard.press('Control+A')
    await paste(
      ['apiVersion: crd.antrea.io/v1beta1', 'kind: NetworkPolicy', 'metadata:', '  name: db-from-app', '  namespace: shop', 'spec:', '  tier: application', '  priority: 20', '  appliedTo:', '  - externalEntitySelector:', '      matchLabels:', '        nephe.antrea.io/tag-role: db', '  ingress:', '  # the application, and nobody else', '  - name: postgres', '    action: Allow', '    from:', '    - externalEntitySelector:', '        matchLabels:', '          nephe.antrea.io/tag-role: app', '    ports:', '    - protocol: TCP', '      port: 5432', ''].join('\n'),
    )
    await page.getByText('The server would take it').waitFor()
    await page.getByRole('button', { name: 'Rules', exact: true }).click()
    must((await page.getByLabel('Ports and protocols').inputValue()) === 'tcp 5432', 'the form does not say what the YAML says')
    await page.getByRole('button', { name: 'Plan', exact: true }).click()
    await page.getByRole('list', { name: 'Reachability' }).waitFor()
    await page.getByRole('button', { name: 'Apply', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'shop/db-from-app' }).waitFor()
    // Its phase comes by itself.
    await page.locator('.head').getByText('Realized').waitFor()
    await page.getByRole('link', { name: 'Map', exact: true }).click()
    await page.waitForFunction((b) => (document.querySelector('.canvas')?.cy?.elements().map((e) => e.id()).sort().join() ?? b) !== b, before, { timeout: PATIENCE })
    return {}
  },

  /** The matrix as it is on the page: who reaches whom by one port. */
  async matrix() {
    await go(`/reach?protocol=TCP&port=${what.port}`)
    await page.locator('table.matrix').waitFor()
    await settled()
    const cells = await page.evaluate(() => {
      const out = {}
      const columns = [...document.querySelectorAll('table.matrix thead th span[title]')].map((th) => th.title)
      for (const tr of document.querySelectorAll('table.matrix tbody tr')) {
        const from = tr.querySelector('th span')?.title ?? ''
        tr.querySelectorAll('td').forEach((td, i) => {
          const verdict = ['Allow', 'Native', 'Unknown', 'Drop', 'Reject'].find((v) => td.querySelector('button')?.classList.contains(v))
          if (verdict) out[`${from.replace(/^vm\/[^/]+\//, '')} > ${columns[i].replace(/^vm\/[^/]+\//, '')}`] = verdict
        })
      }
      return out
    })
    return { cells }
  },

  /** What does not fit is refused before anything is done, with the numbers. */
  async refused() {
    await go('/policies/new?ns=shop')
    await page.getByRole('button', { name: 'YAML' }).click()
    const lines = ['apiVersion: crd.antrea.io/v1beta1', 'kind: NetworkPolicy', 'metadata: {name: too-much, namespace: shop}', 'spec:', '  tier: application', '  priority: 30', '  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: app}}}]', '  ingress:']
    for (let i = 0; i < 400; i++) lines.push(`  - {name: r${i}, action: Allow, from: [{ipBlock: {cidr: 198.51.${i >> 7}.${(2 * i) & 255}/32}}], ports: [{protocol: TCP, port: ${1000 + 2 * i}}]}`)
    await page.locator('.cm-content').click()
    await page.keyboard.press('Control+A')
    await paste(lines.join('\n'))
    await page.getByText('The server would take it').waitFor()
    await page.getByRole('button', { name: 'Plan', exact: true }).click()
    await page.getByText('Refused').first().waitFor()
    // There are refusals of others, too.
    const refusal = page.locator('aside .note.bad').filter({ hasText: 'too-much' }).first()
    must(/quota|rules/i.test(await refusal.innerText()), 'the refusal does not say why')
    await picture('refused')
    return {}
  },

  /** What somebody has changed by hand is shown, and that it was repaired. */
  async drift() {
    await go('/changes?tab=drift')
    const timeline = page.getByRole('region', { name: 'Timeline of drift' })
    for (const text of ['3389', 'changed by hand', 'repaired', what.author, 'AuthorizeSecurityGroupIngress']) await timeline.getByText(text).first().waitFor()
    await picture('drift')
    return {}
  },

  async auditor() {
    const machine = await vmPath('db-1')
    await nothingToChange(machine)
    return {}
  },

  async readonly() {
    await go('/policies/annp/shop/web')
    await page.getByText('This console is read-only').first().waitFor()
    must((await write('PUT')) === 403, 'a console that only reads has passed a change on')
    must((await page.getByRole('button', { name: 'Delete' }).count()) === 0, 'a button deletes')
    // A first question without an answer is asked again, and nobody has to press a button for it.
    let asked = 0
    await page.route('**/api/session', (r) => (asked++ === 0 ? r.abort() : r.continue()))
    await go('/')
    await page.unroute('**/api/session')
    must(asked > 1, 'the first question was answered')
    const lost = problems.findIndex((p) => p.includes('ERR_FAILED'))
    if (lost >= 0) problems.splice(lost, 1)
    return {}
  },

  /** Who has a role in one namespace sees it and nothing else, and is told so. */
  async namespace() {
    await go('/workload')
    await page.getByText('You may not list virtual machines').waitFor()
    await page.getByLabel('Namespace', { exact: true }).fill('other')
    await page.getByRole('button', { name: 'Look' }).click()
    await page.getByText('elsewhere').first().waitFor()
    must((await page.getByText('db-1', { exact: true }).count()) === 0, 'the machine of another namespace is seen')
    await go('/policies')
    await page.getByText('Policies of the cluster are not shown').waitFor()
    await page.getByText('staging').first().waitFor()
    must((await page.getByText('db-from-app').count()) === 0, 'the policy of another namespace is seen')
    await go('/map')
    await page.waitForFunction(() => (document.querySelector('.canvas')?.cy?.nodes().length ?? 0) > 0)
    must(!(await page.evaluate(() => JSON.stringify(document.querySelector('.canvas').cy.elements().map((e) => e.data())))).includes('db-1'), 'the map names a machine of another namespace')
    await clean('a person of one namespace')
    return {}
  },

  async emergency() {
    const machine = await vmPath('web-2')
    await go(machine)
    await release('nobody can log in, INC-4711')
    for (const path of ['/', '/map', '/policies', '/changes']) {
      await go(path)
      await page.getByRole('alert').filter({ hasText: 'INC-4711' }).waitFor()
      await page.getByRole('alert').filter({ hasText: /ends by itself in (30|2\d) min/ }).waitFor()
    }
    await go('/')
    await settled()
    await clean('an emergency')
    await picture('emergency')
    return {}
  },
}

/** release releases what the page is about for half an hour. */
async function release(reason) {
  await page.getByRole('button', { name: 'Release in an emergency' }).click()
  const dialog = page.getByRole('dialog')
  must(await dialog.getByRole('button', { name: 'Release it' }).isDisabled(), 'a release needs no reason')
  await dialog.getByLabel(/Reason/).fill(reason)
  await dialog.getByLabel('It ends by itself').selectOption('after 30 minutes')
  await clean('the dialog of an emergency')
  await picture('release')
  await dialog.getByRole('button', { name: 'Release it' }).click()
  await page.getByRole('alert').filter({ hasText: 'Released in an emergency' }).waitFor()
}

/** A database alone is released, and somebody ends it. */
scenes.database = async () => {
  await go('/workload?tab=cns')
  const link = page.getByRole('link', { name: 'orders', exact: true }).first()
  await link.waitFor()
  await go(await link.getAttribute('href'))
  await release('the shop is cut off, INC-4712')
  await page.getByRole('region', { name: 'Policies on it' }).getByText('Suspended').waitFor()
  await page.getByRole('button', { name: 'End the emergency release' }).click()
  await page.getByRole('region', { name: 'Policies on it' }).getByText('Realized').waitFor()
  await page.getByRole('button', { name: 'Release in an emergency' }).waitFor()
  return {}
}

/** A hub shows its members and how far policies are in each, and says how another one joins. */
scenes.clusters = async () => {
  await go('/')
  await page.getByRole('link', { name: 'Clusters' }).click()
  const members = page.getByRole('region', { name: 'Members' })
  await members.getByText('east', { exact: true }).waitFor()
  await members.getByText('10.66.0.0/16').waitFor()
  const policies = page.getByRole('region', { name: 'Policies by cluster' })
  await policies.getByRole('link', { name: 'from-the-hub' }).waitFor()
  await policies.getByText('Unknown').waitFor()
  await page.getByRole('button', { name: 'Let a cluster join' }).click()
  await page.getByLabel('Name', { exact: true }).fill('west')
  await page.getByLabel('Addresses of its Pods').fill('10.2.0.0/16;id')
  await page.getByText('is no CIDR').waitFor()
  must(!(await page.textContent('main')).includes('nephele cluster token west'), 'a command is told for what is no address')
  await page.getByLabel('Addresses of its Pods').fill('10.2.0.0/16')
  await page.getByText('nephele cluster token west --pods 10.2.0.0/16', { exact: true }).waitFor()
  await picture('clusters')
  await clean('clusters')
  return {}
}

/** What became of a packet is shown, as text; one is traced, and forgotten again. */
scenes.traces = async () => {
  await go('/traces')
  const list = page.getByRole('region', { name: 'Traced packets' })
  await list.getByRole('link', { name: 'done', exact: true }).click()
  const became = page.getByRole('region', { name: 'What became of it' })
  await became.getByText(`NetworkPolicy (${what.hostile}) Dropped by AntreaNetworkPolicy:shop/no rule r`, { exact: true }).waitFor()
  const nodes = await became.getByRole('heading', { level: 3 }).allTextContents()
  must(nodes.join() === 'Node n0 (sender),Node n1 (receiver)', 'the Nodes are in another order: ' + nodes)
  await list.getByText('Dropped', { exact: true }).waitFor()
  await page.getByLabel('From', { exact: true }).fill('shop/nobody;id')
  await page.getByText('From: give the Pod that sends').waitFor()
  await page.getByLabel('From', { exact: true }).fill('shop/nobody')
  await page.getByLabel('To', { exact: true }).fill('shop/db')
  await page.getByLabel('Port', { exact: true }).fill('5432')
  await page.getByRole('button', { name: 'Trace', exact: true }).click()
  await became.getByText('Failed: source').waitFor()
  await picture('traces')
  await clean('traces')
  const name = new URL(page.url()).searchParams.get('name')
  must(name.startsWith('console-'), 'it is called ' + name)
  await page.getByRole('button', { name: 'Delete ' + name }).click()
  await list.getByText('shop/nobody').waitFor({ state: 'detached' })
  return {}
}

/** A console that only reads traces nothing. */
scenes.tracesRead = async () => {
  await go('/traces?name=done')
  await page.getByRole('region', { name: 'What became of it' }).getByText('Forwarded to Node 192.168.1.2').waitFor()
  must((await page.getByRole('button', { name: /Trace|Delete/ }).count()) === 0, 'it can be changed')
  return {}
}

/** A release ends by itself while one looks at it. */
scenes.over = async () => {
  const banner = page.getByRole('alert').filter({ hasText: 'Released in an emergency' })
  await banner.waitFor({ state: 'detached' })
  await go(await vmPath('web-2'))
  await page.getByRole('button', { name: 'Release in an emergency' }).waitFor()
  must((await banner.count()) === 0, 'the banner is there after the end')
  return {}
}

/** What another page in the same browser can do: nothing, be it of another site or another port. */
scenes.attacks = async () => {
  const name = 'nephele-session-' + new URL(origin).port
  const own = async () => (await context.cookies(origin)).find((c) => c.name === name)
  const mine = await own()
  must(mine?.httpOnly && mine.sameSite === 'Strict', 'the cookie can be read by scripts, or is sent from other sites')
  must(!(await page.evaluate(() => document.cookie)).includes('nephele'), 'a script of the page reads the cookie')
  // Fixation: whoever has planted an id knows nothing of the session that begins with it there.
  for (const planted of ['planted-by-somebody-else', mine.value]) {
    const browser = await chromium.launch({ executablePath: what.browser, args: ['--no-sandbox', '--disable-gpu'] })
    const victim = await browser.newContext()
    await victim.addCookies([{ name, value: planted, url: origin, httpOnly: true, sameSite: 'Strict' }])
    const tab = await victim.newPage()
    await tab.goto(planted === mine.value ? what.link3 : what.link2)
    await tab.getByRole('status').filter({ hasText: 'live' }).first().waitFor()
    const theirs = (await victim.cookies(origin)).find((c) => c.name === name)
    must(theirs && theirs.value !== planted, 'the session has the id that somebody planted')
    await victim.clearCookies()
    await victim.addCookies([{ name, value: planted, url: origin, httpOnly: true, sameSite: 'Strict' }])
    must((await tab.evaluate(async (path) => (await fetch(path, { headers: { 'X-Nephele-Csrf': localStorage.getItem('nephele.session') } })).status, '/api/session')) === 401, 'the planted id is that of a session')
    await browser.close()
  }
  // The former session of that browser, whose id was planted, is over; this one begins anew.
  await page.goto(what.link4)
  await page.getByRole('status').filter({ hasText: 'live' }).first().waitFor()
  const path = '/api/k8s/apis/crd.antrea.io/v1beta1/namespaces/shop/networkpolicies/web'
  const version = () => page.evaluate(async (path) => {
    const o = await (await fetch(path, { headers: { 'X-Nephele-Csrf': localStorage.getItem('nephele.session') } })).json()
    // Not its resourceVersion, which the status changes, too.
    return JSON.stringify([o.metadata.uid, o.metadata.generation, o.metadata.labels, o.metadata.annotations, o.spec])
  }, path)
  // The browser gives the cookie to every port of the machine. Alone it opens nothing.
  must((await page.evaluate(async (path) => (await fetch(path)).status, '/api/session')) === 401, 'the cookie alone is a session')
  const before = await version()
  const evil = createServer((req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/html' })
    res.end('<!doctype html><title>evil</title><body>')
  })
  await new Promise((done) => evil.listen(0, '127.0.0.1', done))
  const answers = []
  const tab = await context.newPage()
  tab.on('response', (r) => r.url().startsWith(origin) && answers.push([r.request().method(), r.url(), r.status()]))
  // What the browser keeps from the page has no answer here. That it changed nothing is seen in the end.
  let kept = 0
  tab.on('requestfailed', (r) => r.url().startsWith(origin + '/api/') && kept++)
  for (const host of ['127.0.0.1', 'localhost']) {
    await tab.goto(`http://${host}:${evil.address().port}/`)
    const seen = await tab.evaluate(async ([origin, path]) => {
      const tries = []
      const headers = { 'Content-Type': 'application/json', 'X-Nephele-Csrf': 'guessed' }
      for (const method of ['DELETE', 'PUT', 'PATCH', 'POST']) {
        tries.push(fetch(origin + path, { method, credentials: 'include', headers, body: '{}' }))
        if (method === 'POST') tries.push(fetch(origin + path, { method, credentials: 'include', mode: 'no-cors', headers: { 'Content-Type': 'text/plain' }, body: '{}' }).then(() => 'sent'))
      }
      for (const p of ['/api/session', '/api/stream?watch=annp', path]) tries.push(fetch(origin + p, { credentials: 'include' }).then((r) => 'read ' + r.status))
      tries.push(fetch(origin + '/api/logout', { method: 'POST', credentials: 'include', mode: 'no-cors' }).then(() => 'sent'))
      const results = (await Promise.allSettled(tries)).map((r) => (r.status === 'fulfilled' ? String(r.value) : 'refused'))
      const frame = document.createElement('iframe')
      frame.src = origin + '/policies'
      document.body.append(frame)
      await new Promise((done) => (frame.onload = frame.onerror = done))
      let framed = 'refused'
      try { framed = frame.contentDocument?.body?.innerText ?? 'refused' } catch { /* of another origin */ }
      const opened = window.open(origin + '/')
      // Until the window has left about:blank, it is of this origin and shows nothing of the console.
      const left = () => { try { return opened.closed || opened.location.href !== 'about:blank' } catch { return true } }
      while (opened && !left()) await new Promise((done) => setTimeout(done, 20))
      let reach = 'nothing'
      try { reach = opened?.document?.title ?? 'nothing' } catch { reach = 'nothing' }
      opened?.close()
      return { results, framed, reach }
    }, [origin, path])
    must(seen.results.every((r) => r === 'refused' || r === 'sent'), `a page of ${host} reads: ${seen.results}`)
    must(!/no-ssh|Policies/.test(seen.framed) && seen.reach === 'nothing', `a page of ${host} frames or reaches the console: ${seen.framed} ${seen.reach}`)
    // A form goes without asking before. It takes the page away, so it is the last.
    await tab.evaluate(([origin, path]) => {
      const form = document.createElement('form')
      Object.assign(form, { method: 'POST', enctype: 'text/plain', action: origin + path })
      const field = document.createElement('input')
      Object.assign(field, { name: '{"kind":"NetworkPolicy","a":"', value: '"}' })
      form.append(field)
      document.body.append(form)
      form.submit()
    }, [origin, path])
    await tab.waitForURL(origin + '/**')
    must(!/"spec"/.test(await tab.locator('body').innerText()), 'the answer to a form tells a policy')
  }
  const api = answers.filter(([, url]) => url.includes('/api/'))
  must(api.length >= 2 && kept >= 16, `the attacks were not made: ${kept} were kept back, ${JSON.stringify(answers)}`)
  for (const [method, url, status] of api) must(status === 403 || (method === 'OPTIONS' && status >= 400), `${method} ${url} from another page: ${status}`)
  await tab.close()
  evil.close()
  // He is still logged in, nothing was changed, and his own page may.
  must((await version()) === before, 'a page of another origin has changed a policy')
  must((await write('PUT')) === 200, 'the page itself cannot change anything, so the attacks prove nothing')
  problems.length = 0 // what the browser said about the attacks
  return {}
}

/** The screens as they look, as pictures; of the first ones also without each of their panels. */
scenes.look = async () => {
  const pictures = {}
  // What differs from one moment to the next is a map's layout, and nothing else.
  const take = async () => (await page.screenshot({ mask: [page.locator('.canvas')], maskColor: '#808080' })).toString('base64')
  // An answer that comes late changes the picture once more: it counts when it stays.
  const shot = async (name) => {
    for (let former = '', n = 0; n < 20 && former !== (pictures[name] = await take()); n++) {
      former = pictures[name]
      await page.waitForTimeout(name.includes(' without ') ? 0 : 600)
    }
  }
  const all = {
    overview: ['/', 'Needs attention'],
    map: ['/map', 'Choose one, or a line'],
    reachability: ['/reach', 'web-1'],
    policies: ['/policies', 'no-ssh-from-outside'],
    editor: ['/policies/annp/shop/db-from-app', 'What comes in'],
    changes: ['/changes', 'What is still to be done'],
    workload: [await vmPath('db-1'), 'Rules that hold'],
    services: ['/workload?tab=cns', 'postgres 5432/TCP'],
    balancer: ['/workload/flow?from=shop/app-1&to=cns/shop/front&protocol=TCP&port=443', 'hands it on'],
  }
  for (const scheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' })
    for (const [width, height] of [[1280, 800], [1920, 1080]]) {
      await page.setViewportSize({ width, height })
      for (const [name, [path, text]] of Object.entries(all)) {
        await go(path)
        await page.getByText(text).first().waitFor()
        await settled()
        if (name === 'map') await page.waitForFunction(() => (document.querySelector('.canvas')?.cy?.nodes().length ?? 0) > 3)
        await page.evaluate(() => document.fonts.ready)
        const key = `${name}-${width}-${scheme}`
        await shot(key)
        if (scheme !== 'light' || width !== 1280 || !['overview', 'workload'].includes(name)) continue
        const panels = page.locator('main .panel')
        for (let i = 0; i < (await panels.count()); i++) {
          const box = await panels.nth(i).boundingBox()
          if (!box || box.y + box.height / 2 > height) continue // not on the picture
          // At once: the page gives changes of style the time of a transition.
          await panels.nth(i).evaluate((el) => new Promise((done) => {
            el.style.transition = 'none'
            el.style.opacity = '0'
            requestAnimationFrame(() => requestAnimationFrame(done))
          }))
          await shot(`${key} without ${(await panels.nth(i).getAttribute('aria-label')) ?? (await panels.nth(i).getAttribute('aria-labelledby')) ?? i}`)
          await panels.nth(i).evaluate((el) => (el.style.opacity = ''))
        }
      }
    }
  }
  return { pictures }
}

/** How long things take with many machines, by the clock and in time of the page's processor. */
scenes.measure = async () => {
  const cdp = await context.newCDPSession(page)
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' })
  const spent = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration').value * 1000
  const took = async (what) => {
    const [cpu, at] = [await spent(), Date.now()]
    await what()
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))))
    return { ms: Date.now() - at, cpu: Math.round((await spent()) - cpu) }
  }
  const heap = async () => {
    await cdp.send('HeapProfiler.collectGarbage')
    return Math.round((await cdp.send('Runtime.getHeapUsage')).usedSize / 1e6)
  }
  const out = {}
  const nodes = () => page.waitForFunction(() => (document.querySelector('.canvas')?.cy?.nodes().length ?? 0) > 3)
  out.overview = await took(async () => {
    await go('/')
    await page.getByLabel('Machines').getByText(Number(what.vms).toLocaleString('en')).waitFor()
  })
  out.map = await took(async () => {
    await go('/map')
    await nodes()
  })
  out.nodes = await page.evaluate(() => document.querySelector('.canvas').cy.nodes().length)
  // Frames while the map is moved, for two seconds.
  const canvas = await page.locator('.canvas').boundingBox()
  await page.mouse.move(canvas.x + canvas.width / 2, canvas.y + canvas.height / 2)
  const frames = page.evaluate(() => new Promise((done) => {
    let n = 0
    const begin = performance.now()
    const next = () => (n++, performance.now() - begin < 2000 ? requestAnimationFrame(next) : done((n * 1000) / (performance.now() - begin)))
    requestAnimationFrame(next)
  }))
  for (let i = 0; i < 40; i++) await page.evaluate((i) => void document.querySelector('.canvas').cy.panBy({ x: i % 2 ? 9 : -7, y: i % 3 ? 5 : -8 }), i)
  out.fps = Math.round(await frames)
  out.filterMap = await took(async () => {
    await page.getByRole('searchbox', { name: 'Filter the map' }).fill('web')
    await settled()
  })
  out.heapMap = await heap()
  await go('/workload')
  await page.getByRole('table').waitFor()
  out.filter = await took(async () => {
    await page.getByRole('searchbox', { name: 'Filter' }).fill('db-17')
    await page.waitForFunction(() => [...document.querySelectorAll('tbody tr td:first-child a')].every((a) => a.textContent.includes('db-17')))
  })
  out.heap = await heap()
  return out
}

async function nothingToChange(machine) {
  await go('/policies')
  await page.getByText('no-ssh-from-outside').first().waitFor()
  must((await page.getByRole('link', { name: 'New policy' }).count()) === 0, 'there is a button for a new policy')
  await go('/policies/annp/shop/web')
  await page.getByText('You may not write').first().waitFor()
  must((await page.locator('.rules input:enabled, .rules select:enabled').count()) === 0, 'a field can be written in')
  must((await page.getByRole('button', { name: 'Delete' }).count()) === 0, 'a button deletes')
  await go(machine)
  await page.getByText('Rules that hold').waitFor()
  must((await page.getByRole('button', { name: 'Release in an emergency' }).count()) === 0, 'there is a button for the emergency')
  // The button is not what keeps him from it.
  must((await write('PUT')) === 403, 'a change by hand is not forbidden')
}

/** write changes a policy by the API, as a page would; it returns the status. A conflict is no answer: the controller writes, too. */
async function write(method) {
  return page.evaluate(async (method) => {
    const headers = { 'Content-Type': 'application/json', 'X-Nephele-Csrf': localStorage.getItem('nephele.session') }
    const path = '/api/k8s/apis/crd.antrea.io/v1beta1/namespaces/shop/networkpolicies/web'
    for (;;) {
      const o = await (await fetch(path, { headers })).json()
      const r = await fetch(path, { method, headers, body: JSON.stringify(o) })
      if (r.status !== 409) return r.status
    }
  }, method)
}

let failed
try {
  await context.addInitScript(axe)
  await page.goto(what.link)
  const answer = await scenes[what.scene]()
  must((await page.evaluate(() => window.pwned)) === undefined, 'code that came in with a name has run')
  must(!problems.length, problems.join('\n'))
  // The process ends below, and what is not written by then is lost.
  await new Promise((written) => process.stdout.write(JSON.stringify(answer), written))
} catch (e) {
  failed = e
  process.stderr.write(`${e.stack ?? e}\n${problems.join('\n')}\nat ${page.url()}\n${await page.locator('body').innerText().catch(() => '')}\n`)
  if (what.failures) await page.screenshot({ path: join(what.failures, what.scene + '.png') }).catch(() => undefined)
}
await context.close().catch(() => undefined)
rmSync(profile, { recursive: true, force: true, maxRetries: 3 })
process.exit(failed ? 1 : 0)

export type Theme = 'auto' | 'light' | 'dark'

const dark = matchMedia('(prefers-color-scheme: dark)')

/** The colours: those of the system, unless the person has said otherwise. */
class ThemeChoice {
  choice = $state<Theme>('auto')
  system = $state(dark.matches)

  constructor() {
    const kept = localStorage.getItem('nephele.theme')
    if (kept === 'light' || kept === 'dark') {
      this.choice = kept
    }
    dark.addEventListener('change', () => {
      this.system = dark.matches
      this.show()
    })
    this.show()
  }

  get dark(): boolean {
    return this.choice === 'dark' || (this.choice === 'auto' && this.system)
  }

  next(): void {
    this.choice = this.choice === 'auto' ? (this.system ? 'light' : 'dark') : this.choice === 'light' ? 'dark' : 'light'
    if ((this.choice === 'dark') === this.system) {
      this.choice = 'auto'
      localStorage.removeItem('nephele.theme')
    } else {
      localStorage.setItem('nephele.theme', this.choice)
    }
    this.show()
  }

  private show(): void {
    document.documentElement.dataset.theme = this.dark ? 'dark' : 'light'
  }
}

export const theme = new ThemeChoice()

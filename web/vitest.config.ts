import { defineConfig } from 'vitest/config'

// A busy machine is no failure.
export default defineConfig({ test: { include: ['test/**/*.test.ts'], testTimeout: 120_000, watch: false } })

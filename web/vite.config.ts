import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

// The names of the built files carry a hash of their content, so that the server may let browsers
// keep them for ever. The same sources make the same files on every machine: nothing of the place
// or the time goes into them.
export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: '../internal/console/page',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    chunkSizeWarningLimit: 1000,
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name]-[hash].js',
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8089', '/open': 'http://127.0.0.1:8089' } },
})

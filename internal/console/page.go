package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// bundle is the page as it was built from web/.
//
//go:embed all:page
var bundle embed.FS

// noncePlace stands in index.html where the nonce of a response goes.
const noncePlace = "__NEPHELE_NONCE__"

// file is a file of the page as it is sent.
type file struct {
	kind          string
	plain, packed []byte
}

// page is what browsers get to see.
type page struct {
	index  []byte
	assets map[string]file // by path, /assets/...
}

// contentTypes are the types of the files that a page may have.
var contentTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
	".woff2": "font/woff2", ".json": "application/json", ".webmanifest": "application/manifest+json", ".txt": "text/plain; charset=utf-8",
	".ico": "image/x-icon",
}

// readPage reads a page: index.html, and what is below assets.
func readPage(from fs.FS) (*page, error) {
	index, err := fs.ReadFile(from, "index.html")
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	p := &page{index: index, assets: map[string]file{}}
	err = fs.WalkDir(from, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		kind := contentTypes[path.Ext(name)]
		if kind == "" {
			return fmt.Errorf("%s: no content type is known for it", name)
		}
		raw, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		f := file{kind: kind, plain: raw}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(raw); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if b.Len() < len(raw)*9/10 {
			f.packed = b.Bytes()
		}
		p.assets["/"+name] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	return p, nil
}

// policy is the Content-Security-Policy of the page.
func policy(nonce string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-" + nonce + "'; img-src 'self' data:; font-src 'self'; " +
		"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

// serveIndex sends the page itself.
func (p *page) serveIndex(w http.ResponseWriter, r *http.Request, nonce string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy(nonce))
	h.Set("Content-Type", "text/html; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(bytes.ReplaceAll(p.index, []byte(noncePlace), []byte(nonce)))
}

// serveAsset sends a file of the page. Its name changes with what is in it, so it may be kept.
func (p *page) serveAsset(w http.ResponseWriter, r *http.Request) {
	f, ok := p.assets[r.URL.Path]
	if !ok {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if f.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.packed
	}
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body)
}
